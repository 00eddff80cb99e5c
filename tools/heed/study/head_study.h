// The heads of a run on N sequences of its task: their effects, the first text of a study, and the
// tables of --ablate and --keep.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/study/roles.h"
#include "tools/heed/command_line/command.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/subject.h"

namespace heed {

/// Options of the effects of heads. An empty text means that the option is not given.
struct HeadArguments {
  std::string ablate;                           ///< heads as L1H0,L0H1, or "all"
  std::string keep;                             ///< heads as L1H0,L0H1
  nn::Ablation ablation = nn::Ablation::kMean;  ///< replacement for a head's output
  std::int64_t samples = 0;  ///< number of evaluation sequences; 0: default_samples()
};
/// Returns the number of sequences if --samples is not given: 32, or more until 4,096 positions
/// count in the accuracy, at most 512. With fewer positions the marks of heads depend on the
/// sequences.
std::int64_t default_samples(const nn::Task& task);
/// Returns the options as settings. Their values are stored in `a`, which must outlive them.
std::vector<nn::Setting> head_settings(HeadArguments& a);

/// Sequences, L on these sequences, and the replacements for heads.
struct HeadSample {
  nn::Batch batch;
  nn::Objective objective;
  nn::Replacement replaced;
  std::string sequences;       ///< as text: "32 sequences of induction"
  std::string objective_text;  ///< as text: "the margin, mean over 900 positions: ..."
};

/// The heads of a run on N sequences of its task.
struct HeadStudy {
  /// Empty if the run's text is not available, so that only prompts can be studied.
  std::optional<HeadSample> sample;
  std::unique_ptr<nn::MeasuredHeads> measured;  ///< null if the heads were not measured
  nn::HeadSummary summary;                      ///< of `measured`
  /// L minus L without any head, at step 0 and on the same sequences, if the run has this
  /// checkpoint.
  std::optional<double> untrained;
  std::string not_measured;  ///< why `measured` is null, as a sentence

  /// Returns the mark of a head, by its index; "" if only one sequence was measured.
  std::string mark(std::size_t head) const;
};
/// Measures the heads of the subject's run, unless this would take more than 30 seconds and
/// --ablate all is not given. Throws UsageError if the options are not compatible with each other
/// or with the run.
HeadStudy study_heads(const HeadArguments& a, const Command& c, const Subject& s,
                      Progress& progress);

/// Columns of an entry of "claims" in JSON: the statements of the first text whose numbers hold on
/// other sequences, too.
inline constexpr Column kClaim[] = {{"heads"}, {"role"}, {"quantity"}, {"value"}};
/// Returns the claims, as a table with kClaim.
Table claims(const HeadStudy& study);
/// Returns the first text of a study: which heads matter and what they do, in lines.
std::vector<std::string> first_text(const HeadStudy& study, const Subject& s);

/// Returns the tables of effects: of all heads, of pairs (--ablate all) and of sets (--ablate and
/// --keep).
std::vector<Table> effect_tables(const HeadStudy& study, const HeadArguments& a, const Command& c,
                                 const Subject& s);

}  // namespace heed
