// Interventions and attributions of `heed study`. They measure or estimate the effect of heads,
// activations and tokens on the objective L.
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
  bool attribute = false;                       ///< also attribute L to tokens, heads and MLPs
};
/// Returns the options as settings. Their values are stored in `a`, which must outlive them.
std::vector<nn::Setting> intervention_settings(InterventionArguments& a);

/// Results of the interventions.
struct InterventionResults {
  std::vector<Table> tables;
  Files files;  ///< pictures
};
/// Runs the interventions that the options name. `study` is the study of the subject. Pictures are
/// written into `out`. Throws UsageError, with the name of the option, if an option is not
/// compatible with the other options, the run or the sequence.
InterventionResults run_interventions(const InterventionArguments& a, const Command& c,
                                      const Subject& subject, const nn::Study& study,
                                      const std::filesystem::path& out);

}  // namespace heed
