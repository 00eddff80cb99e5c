// The options of heed study, parsed once.
#pragma once

#include <string>
#include <vector>

#include "nn/lab/run/run_folder.h"
#include "nn/lab/study/ablation.h"
#include "tools/heed/command_line/command.h"

namespace heed {

/// Options of heed study. An empty text means that the option is not given, unless a member states
/// something else.
struct StudyOptions {
  std::string run, weights = lab::RunFolder::kState, prompt, of, at, out;
  std::vector<std::string> formats, show;
  Index sample = 0;   ///< index of the sequence shown, if has_sample is true
  Index samples = 0;  ///< number of sequences; 0: the default
  lab::Ablation ablation = lab::Ablation::kResample;
  std::string ablate, keep;  ///< components; `ablate` may be "all"
  std::string edge, block;   ///< edges, cells
  std::string corrupt, pairs, corruption;
  bool over_time = false;
  bool has_prompt = false, has_sample = false;  ///< whether --prompt and --sample are given

  /// Returns whether the user chose the sequence shown. Without --samples, interventions are then
  /// measured on it, and not on sequences of the task.
  bool chooses_sequence() const { return has_prompt || has_sample; }
  bool has_ablated_set() const { return !ablate.empty() && ablate != "all"; }
  /// Returns whether --show contains the key or "all".
  bool shows(std::string_view key) const;
};

/// Adds the settings and the help of heed study to the command. The variables are in `options`.
void add_study_settings(Command& command, StudyOptions& options);

}  // namespace heed
