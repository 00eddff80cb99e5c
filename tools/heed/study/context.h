// Inputs that the analyses of a study share: the subject, the measured heads, and the options.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nn/study/cells.h"
#include "nn/study/evidence.h"
#include "tools/heed/command_line/command.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/head_study.h"
#include "tools/heed/study/subject.h"

namespace heed {

/// Cuts of single cells of the subject's sequence.
struct NotableCells {
  std::vector<nn::Cell> cells;
  std::vector<nn::Evidence> evidence = {};  ///< in the order of `cells`
  nn::Judgement judgement = {};
};

/// The inputs of an analysis. Each part is computed when it is first used.
struct StudyContext {
  const Command& command;
  const HeadArguments& arguments;  ///< options that several analyses share
  const Subject& subject;
  const HeadStudy& heads;  ///< on sequences of the task; `measured` may be null
  Progress& progress;

  /// Returns whether the user gave this option.
  bool given(const std::string& option) const { return command.given(option); }
  /// Returns the value of an option, or "".
  std::string text(const std::string& option) const { return command.text(option); }
  /// Returns a function that shows "WHAT: 3 of 20" as progress.
  nn::ProgressCallback counting(std::string what) const;

  const nn::Transformer& model() const { return subject.model(); }
  /// Returns the study of the subject's sequence.
  const nn::Study& study();
  /// Returns the measured quantities of each head. Patterns and gradients are measured on the
  /// subject's sequence, and effects on the sample. For models of texts, nn::kCopyScores are
  /// measured on repeated random tokens.
  std::vector<nn::HeadReport> reports();
  /// Returns the scores of equal weights.
  nn::HeadReport uniform();
  /// Returns the mark of a head, by its index; null if it has none.
  Value mark(std::size_t head) const;
  /// Returns the sequences on which interventions are measured: the one that --prompt or --sample
  /// selects, unless --samples is given, and otherwise the sample. Throws UsageError if the
  /// replacement of --ablation is not available.
  const HeadSample& sample();
  /// Measures the cuts of nn::notable_cells().
  const NotableCells& cells();
  /// Judges evidence on this L: nothing counts for a model that predicts no better than token
  /// frequencies.
  nn::Judgement judge(const std::vector<nn::Evidence>& rows, const nn::Objective& o) const {
    return nn::judge(rows, subject.smallest_effect(o));
  }
  /// Returns whether rows on these sequences have marks: there are two or more, and effects count.
  bool has_marks(const HeadSample& sample) const {
    return subject.predicts && sample.run.values.size() > 1;
  }

  /// The parts that were computed; read them with study(), sample() and cells().
  struct Computed {
    std::optional<nn::Study> study = {};
    std::optional<HeadSample> sample = {};
    std::optional<NotableCells> cells = {};
  } computed = {};
};

}  // namespace heed
