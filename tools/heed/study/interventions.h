// Interventions and attributions of heed study: the effect of heads, activations and tokens on L.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nn/study/ablation.h"
#include "tools/heed/command_line/command.h"
#include "tools/heed/study/subject.h"

namespace heed {

/// Options of the interventions and attributions. An empty text means that the option is not given.
struct InterventionArguments {
  std::string ablate;                           ///< heads as L1H0,L0H1, or "all"
  std::string corrupt;                          ///< the corrupt prompt
  nn::Ablation ablation = nn::Ablation::kZero;  ///< replacement for a head's output
  std::int64_t samples = 0;                     ///< number of evaluation sequences
  bool attribute = false;                       ///< also attributions to tokens and parts
};
/// Returns the options as settings that are bound to `a`.
std::vector<nn::Setting> intervention_settings(InterventionArguments& a);

/// Results of the interventions.
struct InterventionResults {
  std::vector<Table> tables;
  std::vector<std::filesystem::path> files;  ///< pictures of --samples and --corrupt
};
/// Runs the interventions that the options name. `study` is the study of the subject. Pictures are
/// written into `out`. Throws UsageError, which names the option, if an option is not compatible
/// with the other options, the run or the sequence.
InterventionResults run_interventions(const InterventionArguments& a, const Command& c,
                                      const Subject& subject, const nn::Study& study,
                                      const std::filesystem::path& out);

}  // namespace heed
