// The loop of training: steps, evaluations, checkpoints, saves, and what ends a run.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nn/run/metrics_file.h"
#include "nn/run/run_folder.h"
#include "nn/train/checks/audit.h"
#include "nn/train/checks/causality.h"
#include "nn/train/rank_session.h"

namespace heed::nn {

class TrainingRun;
struct TrainingResult;

/// Receives what happens while a run trains. No call changes the run. An exception ends it, without
/// a save.
struct TrainingObserver {
  virtual ~TrainingObserver() = default;
  /// Before the first step of this call.
  virtual void on_start(const TrainingRun&) {}
  /// After step 1 of a run: every parameter's gradient, weight and update.
  virtual void on_audit(const TrainingRun&, const std::vector<ParameterAudit>&) {}
  /// After a step, its evaluation and its saves.
  virtual void on_step(const TrainingRun&, const StepReport&) {}
  /// After an evaluation; `e` may be not finite, which then ends the run.
  virtual void on_evaluation(const TrainingRun&, const Evaluation&) {}
  /// During an evaluation, after each chunk of `total` sequences. `all`: of the last one.
  virtual void on_evaluating(std::int64_t /*done*/, std::int64_t /*total*/, bool /*all*/) {}
  /// A warning for the user; the run continues.
  virtual void on_warning(const std::string&) {}
  /// At the end of a run that was not stopped, before it is marked as finished: a process that is
  /// killed here comes back to it.
  virtual void on_end(const TrainingRun&, const TrainingResult&) {}
};

struct TrainingOptions {
  bool strict = false;          ///< a parameter that gets no gradient ends the run, NumericError
  double save_seconds = 15;     ///< least time between saves at evaluations
  double longest_unsaved = 60;  ///< most seconds without a save
  std::vector<std::string> notes = {};  ///< comments in config.toml
  /// Called after each step and within evaluations; true stops and saves the run. Empty: never.
  std::function<bool()> stop_requested = {};
  /// The processes that train together, which the trainer has joined; null: one process alone.
  RankSession* ranks = nullptr;
};

struct TrainingResult {
  bool finished = false;                      ///< false: stopped, and saved for a resume
  std::string early_end = {};                 ///< Trainer::stop_reason(), or ""
  std::optional<Evaluation> all = {};         ///< after the last step, on every evaluation sequence
  std::optional<Evaluation> comparable = {};  ///< the same on the sequences of the history
};

/// The model is not causal: it reads the tokens that it should predict.
struct LeakError : autograd::Error {
  using Error::Error;
};

/// One call of training. A kill at any moment leaves the last save in its folder, from which
/// RunFolder::resume() continues with the same bits.
class TrainingRun {
 public:
  /// Trainer and observer must outlive this. The folder must exist; it is saved to if it has no
  /// save yet.
  TrainingRun(Trainer& trainer, RunFolder folder, TrainingOptions options = {},
              TrainingObserver* observer = nullptr);

  /// Trains up to config.steps, to an early end or until a stop is requested. NumericError, after a
  /// save of the steps before, as Trainer::step() or where an evaluation is not finite: such
  /// weights replace no save. LeakError if an output depends on a later input (tried at the start)
  /// or a loss is below the best possible one. IoError.
  TrainingResult run();

  Trainer& trainer() const { return t_; }
  const RunFolder& folder() const { return folder_; }
  const TrainingOptions& options() const { return options_; }
  const std::optional<Evaluation>& last_evaluation() const { return last_; }
  /// Seconds since this was made.
  double seconds() const;
  std::int64_t steps() const { return steps_; }  ///< taken by this call
  /// Tokens per second, over the time of steps alone; 0 before the first.
  double tokens_per_second() const;
  /// Seconds that the steps to come will take; NaN before the first.
  double seconds_left() const;

 private:
  void begin();
  void step();
  TrainingResult stop();
  TrainingResult finish();
  bool ended() const;
  bool stopping() const;
  bool evaluation_is_due() const;
  Evaluation evaluate();
  ProgressCallback progress(bool all) const;
  void check(const Evaluation& e);
  void check_finite(const Evaluation& e) const;
  void check_gradients();
  void save();
  std::string save_before_trouble();
  std::string last_save() const;

  Trainer& t_;
  RunFolder folder_;
  TrainingOptions options_;
  TrainingObserver none_;
  TrainingObserver& observer_;
  MetricsLog log_;
  std::optional<Evaluation> last_;  // of those in the history
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double last_saved_ = 0, step_seconds_ = 0;
  std::int64_t steps_ = 0, saved_ = 0;
};

}  // namespace heed::nn
