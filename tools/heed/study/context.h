// Inputs that the analyses of a study share: the subject, its sequences with donors, and the
// measured components.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nn/lab/study/components.h"
#include "nn/lab/study/roles.h"
#include "nn/lab/study/study.h"
#include "tools/heed/report/progress.h"
#include "tools/heed/study/study_options.h"
#include "tools/heed/study/subject.h"

namespace heed {

/// Sequences with their donors, and L on them.
struct StudySample {
  lab::BaseRun run;
  lab::Donors donors;          ///< without rows if there are too few sequences of equal length
  std::string sequences;       ///< as text: "118 sequences of induction", "the sequence shown"
  std::string objective;       ///< L in words
  std::string without_donors;  ///< the reason, as a sentence, if donors are missing; else ""
};

/// The inputs of an analysis. Each part is computed when it is first used.
class StudyContext {
 public:
  StudyContext(const StudyOptions& options_, const Subject& subject_, Progress& progress_)
      : options(options_), subject(subject_), progress(progress_) {}

  const StudyOptions& options;
  const Subject& subject;
  Progress& progress;

  const nn::Transformer& model() const { return subject.model(); }
  /// Returns a function that shows "WHAT: 3 of 20" as progress.
  lab::ProgressCallback counting(std::string what) const;

  /// Returns sequences of the task with L of the task, or null if the text of the run is not
  /// available or no length has enough sequences. Throws the errors of sample_of().
  const StudySample* task_sample();
  /// Returns copies of the sequence shown, each with one donor.
  const StudySample& shown();
  /// Returns the sample on which edges and sets are measured: shown() if --prompt or --sample is
  /// given without --samples, and otherwise the sequences of the task.
  const StudySample& sample();
  /// Returns the components on task_sample(), or null: then not_measured() has the reason.
  const lab::ComponentStudy* components();
  /// Returns the roles of the heads that count.
  const std::vector<lab::HeadRole>& roles();
  /// Returns why the components are not measured or not judged, as sentences, or "".
  std::string not_measured();
  /// Returns whether the model predicts better than token frequencies: by at least 0.01 nats and
  /// two standard errors.
  bool predicts();
  /// Returns the smallest effect that counts: infinity unless the model predicts.
  double smallest() { return predicts() ? lab::kSmallestEffect : HUGE_VAL; }
  /// Returns the arrays of the sequence shown.
  const lab::Study& study();

  /// Work that is left for edges and cells together (lab::kStudyWork).
  double work_left = lab::kStudyWork;

 private:
  std::optional<StudySample> task_sample_, shown_;
  std::optional<lab::ComponentStudy> components_;
  std::optional<std::vector<lab::HeadRole>> roles_;
  std::optional<lab::Study> study_;
  std::optional<std::string> no_better_;
  std::string too_long_;
};

/// Returns the sample of the options: sequences of the task and their L, with the loaded weights.
/// Throws UsageError if --samples is too small or too large.
StudySample sample_of(const StudyOptions& options, const Subject& subject);

/// Returns the interventions that are measured, the largest path gradient first: all if --show
/// names `key`, and otherwise those whose work fits into StudyContext::work_left, which becomes
/// smaller. work(i) estimates the operations of intervention i.
std::vector<std::size_t> affordable(StudyContext& c, const char* key,
                                    const std::vector<lab::Evidence>& predicted,
                                    const std::function<double(std::size_t)>& work);

/// Returns a change with its error: "-5.31 +- 0.03"; "0" if nothing changes.
std::string effect_text(const lab::Effect& change);
/// Returns an accuracy as ", accuracy 28.3 %"; "" if no position counts.
std::string accuracy_text(const lab::Effect& e);
/// Returns where a head attends to: "1 back 0.76, itself 0.10".
std::string distances_text(const lab::HeadRole& role);

}  // namespace heed
