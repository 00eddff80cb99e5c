// Training: a model, a task and an optimizer. Prints nothing; who calls step() watches. The folder
// that keeps a run is nn/train/run_folder.h.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "nn/io/safetensors.h"
#include "nn/optim/optimizer.h"
#include "nn/train/config.h"
#include "nn/train/evaluate.h"
#include "nn/train/metrics.h"

namespace heed::nn {

/// The task of a run: config.task, or the file config.text. Errors as make_task(); IoError.
std::unique_ptr<Task> make_task(const RunConfig& config);
/// Its model, drawn from config.seed. ValueError if its context is not the task's.
Transformer make_model(const RunConfig& config, const Task& task);

/// Its optimizer, over all parameters of the model.
std::unique_ptr<Optimizer> make_optimizer(const RunConfig& config, const Transformer& model);
/// One update, clipped as config.clip and clip_value say. Returns the norm before clipping.
double clipped_step(Optimizer& optimizer, const RunConfig& config, double lr);

/// What a run of `config` writes into its config.toml (but for a batch of more sequences than the
/// task has, which becomes all of them): checked; a text or lines by the whole path,
/// which also chooses the task; the name of a task of one's `own`, if there is one, as the task.
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
  Evaluation evaluate(bool all, const WorkWatch& watch = {});
  /// Whether the history has an evaluation after the last step.
  bool evaluated() const;

  const RunConfig& config() const { return config_; }
  /// Another length of the run, other intervals: all that a run that goes on may change. A schedule
  /// that decays keeps its end: the steps before it are those of a run that was started so, and
  /// those after it run at min_lr. Errors as validate().
  void set_length(std::int64_t steps, std::int64_t eval_every, std::int64_t save_every);

  /// Another rhythm of looking at attention's invariants, which changes no bit.
  void set_check_invariants(std::int64_t every);

  std::unique_ptr<Task> task;
  Transformer model;
  std::int64_t steps_done = 0;

  /// Parameters whose gradient was missing, or zero everywhere, in the last step. Looks at all of
  /// them, at each call.
  std::vector<std::string> parameters_without_gradient() const;
  /// Why no gradient reaches these, each: "blocks.0.up.weight: blocks.0: the gradient ends at ...".
  /// Runs the next batch; draws nothing.
  std::string why_no_gradient(const std::vector<std::string>& names) const;

  /// What a user should know of a resumed run: that other bits follow, and why. Empty if none do.
  std::vector<std::string> warnings;

  /// One row per step or evaluation.
  const std::vector<MetricsRow>& history() const { return history_; }

  /// Other rules of an early end, as RunConfig's patience, target_loss, target_accuracy; they, too,
  /// may change when a run goes on. Errors as validate().
  void set_stop_rules(std::int64_t patience, double target_loss, double target_accuracy);
  /// Why the last evaluation ends the run early: "patience: ...", or "" if it does not. A function
  /// of the history, so that a resumed run ends where the straight one does.
  std::string stop_reason() const;

  /// Writes config.toml and state.safetensors, all that resume() reads, then what others read:
  /// metrics.csv and .jsonl, best and model .safetensors. Each atomically. `notes` go into
  /// config.toml as comments. NumericError, and nothing is written, unless all weights are finite.
  void save(const std::filesystem::path& folder, const std::vector<std::string>& notes = {}) const;
  /// Of these only metrics.csv and best.safetensors: for an evaluation that a longer run would not
  /// have, and that its state must not keep.
  void save_results(const std::filesystem::path& folder) const;
  /// Weights only; the step, the facts of the text and `more` in the metadata.
  void save_weights(const std::filesystem::path& file,
                    const std::map<std::string, std::string>& more = {}) const;
  /// Continues where save() stopped, bit for bit on the same binary and SIMD target; else see
  /// warnings. A run on a task of one's `own` needs it again; `moved`, if any, is where its text or
  /// its lines are now. IoError naming the file that does not fit, a text that changed included.
  static Trainer resume(const std::filesystem::path& folder, std::unique_ptr<Task> own = nullptr,
                        const std::string& moved = "");
  /// All that decides the steps to come and the files of the run, by name: weights, moments, the
  /// best weights, the history. And the random streams and numbers beside them.
  std::vector<NamedTensor> state() const;
  std::map<std::string, std::string> streams() const;

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
  std::map<std::string, std::string> metadata(std::int64_t step) const;
  void restore(const SafeTensors& state);
  void restore_history(const SafeTensors& state);
  void restore_best(const SafeTensors& state);

  Generator data_, dropout_;
  std::unique_ptr<Optimizer> optimizer_;
  RankSession* ranks_ = nullptr;  // null: alone
  std::vector<MetricsRow> history_;
  std::optional<double> best_loss_;
  std::vector<NamedTensor> best_;
  std::int64_t best_step_ = 0;
};

}  // namespace heed::nn
