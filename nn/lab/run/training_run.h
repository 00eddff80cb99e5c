// The training loop: steps, evaluations, checkpoints and saves, until one of the conditions that
// end a run.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/base/files.h"
#include "nn/lab/run/run_folder.h"
#include "nn/lab/train/rank_session.h"

namespace heed::lab {

/// Options of TrainingRun that are not part of the run's configuration.
struct TrainingOptions {
  bool strict = false;                  ///< true: a parameter without gradient throws NumericError
  std::vector<std::string> notes = {};  ///< comments in config.toml
  /// Called within evaluations and, if `ranks` is null, after each step. If it returns true, the
  /// run is saved and stopped. If it is empty, the run is never stopped in this way.
  std::function<bool()> stop_requested = {};
  /// The group of processes that train together and that the trainer has joined. Null if this is
  /// the only process.
  RankSession* ranks = nullptr;
};

/// Result of TrainingRun::run().
struct TrainingResult {
  bool finished = false;       ///< false: the run was stopped and saved for a resume
  std::string early_end = {};  ///< Trainer::stop_reason() of a run that ended early, otherwise ""
  /// The final evaluation: after the last step, on final_evaluation_size() sequences.
  std::optional<Evaluation> all = {};
  double seconds = 0;  ///< TrainingRun::seconds() at the end of the final evaluation
  /// Evaluation after the last step on the first `eval-batch` sequences, as in the history.
  std::optional<Evaluation> comparable = {};
};

/// Thrown if the model is not causal, that is, if an output depends on tokens that it should
/// predict.
struct LeakError : autograd::Error {
  using Error::Error;
};

/// Trains a run and saves it. After a kill at any moment the directory contains the last save, from
/// which RunFolder::resume() continues with the same bits.
class TrainingRun {
 public:
  /// Trainer and options.ranks must outlive the object. run() saves before the first step.
  TrainingRun(Trainer& trainer, LockedFolder folder, TrainingOptions options = {});
  virtual ~TrainingRun() = default;

  /// Trains up to config.steps, until an early end, or until a stop is requested. Throws:
  ///  - NumericError like Trainer::step(), or if the loss of an evaluation is not finite. If a step
  ///    fails, the run is saved before the error is thrown, unless its weights or their loss are
  ///    not finite. Such weights never replace a save.
  ///  - LeakError if an output depends on a later input (tested at the start), or if leaks() is
  ///    true for an evaluation, whose loss is then too far below the optimal loss.
  ///  - IoError if a file cannot be written, or if the run's directory was moved or removed.
  TrainingResult run();

  /// Returns the trainer that was passed to the constructor.
  Trainer& trainer() const { return t_; }
  /// Returns the directory of the run.
  const RunFolder& folder() const { return folder_; }
  /// Throws IoError if the directory was moved or removed. Another run may then have its path, so
  /// this is called before files are written.
  void check_folder() const;
  /// Returns the options that were passed to the constructor.
  const TrainingOptions& options() const { return options_; }
  /// Returns the last evaluation that this object has added to the history; nothing before the
  /// first.
  const std::optional<Evaluation>& last_evaluation() const { return last_; }
  /// Returns the seconds since construction.
  double seconds() const;
  /// Returns the number of steps that this object has performed.
  Index steps() const { return steps_; }
  /// Returns tokens per second of step time; 0 before the first step.
  double tokens_per_second() const;
  /// Returns the estimated time of the remaining steps in seconds; NaN before the first step.
  double seconds_left() const;

 protected:
  // Calls for a derived class that shows the run. They must not change the run. An exception from
  // a call ends the run without a save.

  ///@{
  /// Called before the first step of run().
  virtual void on_start() {}
  /// Called after a step, its evaluation and its saves.
  virtual void on_step(const MetricsRow&) {}
  /// Called after an evaluation. If its loss is not finite, the run ends after this call.
  virtual void on_evaluation(const Evaluation&) {}
  /// Called during an evaluation of `total` sequences, after each chunk. `all` is true in the final
  /// evaluation.
  virtual void on_evaluating(Index /*done*/, Index /*total*/, bool /*all*/) {}
  /// Called with a warning for the user. The run continues.
  virtual void on_warning(const std::string&) {}
  /// Called at the end of a run that was not stopped, before the run is marked as finished. If the
  /// process is killed during this call, a resume calls it again.
  virtual void on_end(const TrainingResult&) {}
  ///@}

 private:
  void begin();
  void step();
  TrainingResult stop();
  TrainingResult finish();
  bool ended() const;
  bool stopping() const;
  bool evaluation_is_due() const;
  Evaluation evaluate();
  ProgressCallback progress(bool all);
  void check(const Evaluation& e);
  void check_finite(const Evaluation& e) const;
  void check_gradients();
  void save();
  std::string save_before_trouble();
  std::string last_save() const;

  Trainer& t_;
  LockedFolder locked_;
  RunFolder folder_;
  TrainingOptions options_;
  std::optional<autograd::AppendFile> metrics_;  // metrics.csv, which save() replaces
  std::size_t metrics_rows_ = 0;                 // number of rows in metrics.csv
  std::optional<Evaluation> last_;               // see last_evaluation()
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double last_saved_ = 0, save_cost_ = 0, step_seconds_ = 0;
  Index steps_ = 0;  // steps performed by this object
  Index saved_ = 0;  // step of the last save
};

}  // namespace heed::lab
