// Interventions and attributions of `heed study`. They measure or estimate the effect of
// activations, tokens and parts of the model on the objective L.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/heed/command_line/command.h"
#include "tools/heed/study/head_study.h"
#include "tools/heed/study/subject.h"

namespace heed {

/// Options of the attributions.
struct InterventionArguments {
  bool attribute = false;  ///< also attribute L to tokens, heads and MLPs
};
/// Returns the options as settings. Their values are stored in `a`, which must outlive them.
std::vector<nn::Setting> intervention_settings(InterventionArguments& a);

/// Results of the interventions.
struct InterventionResults {
  std::vector<Table> tables;
  Files files;  ///< pictures
};
/// Runs the interventions that the options name. `study` is the study of the subject. `sample` has
/// the sequences of --samples, or is null if the option is not given. Pictures are written into
/// `out`, and everything is appended to `results`. Throws UsageError, with the name of the option,
/// if an option is not compatible with the other options, the run or the sequence.
void run_interventions(const InterventionArguments& a, const Subject& subject,
                       const nn::Study& study, const HeadSample* sample,
                       const std::filesystem::path& out, InterventionResults& results);

}  // namespace heed
