// Training: a model, a task and an optimizer. Prints nothing and opens no file but a text to learn.
// nn/run/run_folder.h keeps a run on disk; nn/run/training_run.h is the loop.
#pragma once

#include <memory>
#include <optional>

#include "nn/optim/optimizer.h"
#include "nn/train/config.h"
#include "nn/train/evaluate.h"
#include "nn/train/metrics.h"
#include "nn/train/snapshot.h"

namespace heed::nn {

/// Makes the task of a run: config.task, or the file config.text. Errors as make_task(); IoError.
std::unique_ptr<Task> make_task(const RunConfig& config);
/// Makes the model of a run, drawn from config.seed. ValueError if its context is not the task's.
Transformer make_model(const RunConfig& config, const Task& task);

/// Makes the optimizer of a run, over all parameters of the model.
std::unique_ptr<Optimizer> make_optimizer(const RunConfig& config, const Transformer& model);
/// Makes one update, clipped as config.clip and clip_value say. Returns the norm before clipping.
double clipped_step(Optimizer& optimizer, const RunConfig& config, double lr);

/// Returns the configuration that a run writes into its config.toml: checked, with the absolute
/// path of a text or lines, which also chooses the task, and with the name of a user's `own` task.
/// (A batch of more sequences than the task has becomes all of them later, when the task is made.)
/// Errors as validate().
RunConfig effective(RunConfig config, const Task* own = nullptr);

class RankSession;
struct ShardGradients;

struct StepReport {
  std::int64_t step = 0;  ///< steps done, this one included; 0 if none was taken (RankSession)
  double loss = 0;        ///< of this step's batch, nats
  double lr = 0;
  double grad_norm = 0;     ///< before clipping
  double clipped_norm = 0;  ///< after
};

/// A run in progress. The same config gives the same bits, however often it is evaluated,
/// interrupted and resumed.
class Trainer {
  RunConfig config_;  // first: the rest is made from it

 public:
  /// Makes task, model and streams; `own` takes the place of config.task. Errors as validate() and
  /// make_task(); ValueError if the model's context is not the task's.
  explicit Trainer(const RunConfig& config, std::unique_ptr<Task> own = nullptr);

  /// One optimizer step on the next batch, or on `fixed`. NumericError naming the loss, or the
  /// first parameter with a non-finite gradient, and the op that turned finite numbers into others
  /// (found by running the step again), or what config.check_invariants finds broken; weights and
  /// streams are then those before the step, so that a resumed run takes the same batch again.
  StepReport step(const Batch* fixed = nullptr);
  /// Takes the steps to come together with the other processes of a session, which joined the same
  /// run. Each computes its share of config.accumulate; all have the bits of one process. If one
  /// cannot take a step, all throw the error of one process and the session has ended. `ranks`
  /// outlives this. ValueError unless they are a power of two up to config.accumulate.
  void join(RankSession& ranks);

  /// Evaluates, remembers the result in the history and the weights if they are the best so far;
  /// a loss that is not finite is never the best.
  /// `all`: the whole evaluation set, not config.eval_batch sequences of it.
  Evaluation evaluate(bool all, const ProgressCallback& progress = {});
  /// Returns whether the history has an evaluation after the last step.
  bool evaluated() const;

  const RunConfig& config() const { return config_; }
  /// Changes what may change when a run is resumed: its length, intervals, and the rules of an
  /// early end. A schedule that decays keeps its end: the steps before it are those of a run that
  /// was started with this length, and the steps after it run at min_lr. ValueError that names the
  /// first other setting that differs; errors as validate().
  void set(const RunConfig& config);

  /// The state after the last step. Its tensors share the memory of this trainer: use it, or copy
  /// them, before the next step.
  Snapshot snapshot() const;
  /// Continues where snapshot() was taken, bit for bit on the same binary and SIMD target. A run on
  /// a user's `own` task needs it again. IoError naming what does not fit, a text that changed
  /// included.
  static Trainer from(const Snapshot& snapshot, std::unique_ptr<Task> own = nullptr);

  std::unique_ptr<Task> task;
  Transformer model;
  std::int64_t steps_done = 0;

  /// Returns the parameters whose gradient was missing, or zero everywhere, in the last step. Reads
  /// all gradients at each call.
  std::vector<std::string> parameters_without_gradient() const;
  /// Returns why no gradient reaches each of these: "blocks.0.up.weight: blocks.0: the gradient
  /// ends at ...". Runs the next batch; draws nothing.
  std::string why_no_gradient(const std::vector<std::string>& names) const;

  /// One row per step or evaluation.
  const std::vector<MetricsRow>& history() const { return history_; }

  /// Returns why the last evaluation ends the run early: "patience: ...", or "" if it does not. A
  /// function of the history, so that a resumed run ends where the straight one does.
  std::string stop_reason() const;

 private:
  StepReport try_step(const Batch* fixed);
  /// Returns the loss of the next batch, or of `fixed`, and leaves the gradients in .grad. Returns
  /// nothing if the root of the ranks takes no step.
  std::optional<double> loss_and_gradients(const Batch* fixed);
  MetricsRow& row_of(std::int64_t step);
  double whole_batch(const Batch& batch);
  void check_loss(double loss) const;
  std::optional<double> batch_in_shards(const Batch& batch);
  ShardGradients own_shards(const Batch& batch);

  Generator data_, dropout_;
  std::unique_ptr<Optimizer> optimizer_;
  RankSession* ranks_ = nullptr;  // null: alone
  std::vector<MetricsRow> history_;
  std::optional<double> best_loss_;
  std::vector<NamedTensor> best_;
  std::int64_t best_step_ = 0;
};

}  // namespace heed::nn
