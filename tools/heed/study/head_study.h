// The heads of a run, measured on N sequences of its task.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/study/run_effects.h"
#include "tools/heed/command_line/command.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/subject.h"

namespace heed {

/// Options of the effects of heads. An empty text means that the option is not given.
struct HeadArguments {
  std::string ablate;  ///< components to replace, such as "L0MLP,L1H0", or "all"
  std::string keep;    ///< components to keep, such as "L0MLP,L1H0"
  nn::Ablation ablation = nn::Ablation::kMean;  ///< replacement for an output
  std::int64_t samples = 0;  ///< number of evaluation sequences; 0: nn::default_samples()
};
/// Returns the options as settings. Their values are stored in `a`, which must outlive them.
std::vector<nn::Setting> head_settings(HeadArguments& a);

/// Sequences, L on these sequences, and the replacements for components.
struct HeadSample {
  nn::BaseRun run;
  nn::Replacement replaced;
  std::string sequences;       ///< as text: "32 sequences of induction", "the sequence shown"
  std::string objective_text;  ///< as text: "the margin, mean over 900 positions: ..."
  std::string replacement;     ///< as text, of `replaced`: "its mean over these sequences"
};

/// The heads of a run on N sequences of its task.
struct HeadStudy {
  /// Empty if the run's text is not available, so that only prompts can be studied. Also empty if
  /// the heads are not measured and no option uses the sample.
  std::optional<HeadSample> sample;
  std::unique_ptr<nn::MeasuredHeads> measured;  ///< null if the heads were not measured
  nn::HeadSummary summary;                      ///< of `measured`
  /// L without any head, minus L, at step 0 and on the same sequences, if the run has this
  /// checkpoint.
  std::optional<double> untrained;
  std::string not_measured;  ///< which parts were not measured and why, as sentences, or ""
  /// A text that describes the sequences on which nn::kCopyScores are measured; "" if these are the
  /// sample.
  std::string score_sequences;

  /// Appends a sentence to `not_measured`.
  void add_not_measured(const std::string& sentence);
  /// Copies from `on_sample` to `report` the effects and, unless `score_sequences` is
  /// empty, nn::kCopyScores.
  void add_measured(nn::HeadReport& report, const nn::HeadReport& on_sample) const;
};
/// Returns the sequences of --samples, or the default ones, with their L and the replacements. The
/// text of the run must be available.
HeadSample sample_of(const HeadArguments& a, const Command& c, const Subject& s);
/// Sets Subject::predicts and measures the heads of the subject's run. If this would take more than
/// 30 seconds, estimated from passes over some of the sequences, and --ablate all is not given,
/// prints a line to stderr instead of measuring. Throws UsageError if the options are not
/// compatible with each other or with the run.
HeadStudy study_heads(const HeadArguments& a, const Command& c, Subject& s, Progress& progress);

/// Returns the sequence that --prompt or --sample selects, unless --samples is given, and otherwise
/// the sample. Throws UsageError if the replacement of --ablation is not available.
HeadSample effect_sample(const HeadStudy& study, const HeadArguments& a, const Command& c,
                         const Subject& s);

/// Returns the names of components, such as "L0MLP" and "L1H1".
std::vector<std::string> component_names(const std::vector<nn::Component>& components);
/// Returns a change with its error: "-5.31 +- 0.03"; "0" if nothing changes.
std::string effect_text(const nn::Effect& change);
/// Returns the unit of L and its changes: "logits" or "nats".
const char* effect_unit(const nn::Objective& objective);

}  // namespace heed
