// Training of a model on a task with an optimizer. Trainer prints nothing and writes no file. It
// reads only the texts of the task and the weights in config.from. nn/lab/run/run_folder.h stores a
// run on disk; nn/lab/run/training_run.h contains the training loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/lab/train/config.h"
#include "nn/lab/train/evaluate.h"
#include "nn/lab/train/metrics.h"
#include "nn/lab/train/shards.h"
#include "nn/lab/train/snapshot.h"
#include "nn/optim/optimizer.h"

namespace heed::lab {

/// Creates the task of a run: the built-in task config.task, or the task that learns the file
/// config.text or config.lines. Throws the errors of make_task() in nn/lab/tasks, or of make_text()
/// for a file.
std::unique_ptr<Task> make_task(const RunConfig& config);
/// Returns a task that accepts the prompts of a saved run, without its text file or the program
/// that defines its task. `data` are the metadata of the run's weights. Throws IoError if they are
/// incomplete.
std::unique_ptr<Task> make_prompts(const RunConfig& config,
                                   const std::map<std::string, std::string>& data);
/// Creates the model of a run and draws its weights with the seed config.seed. Throws ValueError if
/// the context length of the model and the length of the task's sequences differ.
Transformer make_model(const RunConfig& config, const Task& task);

/// Creates the optimizer of a run over all parameters of the model.
std::unique_ptr<Optimizer> make_optimizer(const RunConfig& config, const Transformer& model);

/// Returns the validated configuration that a run writes into its config.toml. If config.text or
/// config.lines is set, it becomes an absolute path, and config.task becomes
/// "text" or "lines". If `own`, a user-defined task, is given, config.task becomes its name
/// instead. config.from also becomes an absolute path. A batch larger than the task's training set
/// is reduced later, by the constructor of Trainer. Throws the errors of validate().
RunConfig effective(RunConfig config, const Task* own = nullptr);

class RankSession;

/// A training run in progress. The same configuration gives the same bits, however often the run is
/// evaluated, interrupted and resumed.
class Trainer {
  RunConfig config_;  // declared first, because the other members are initialized from it

 public:
  /// Creates task, model, optimizer and random streams. `own`, if given, is used instead of the
  /// task that `config` names. If config.from is set, the weights are those of this file. Throws
  /// the errors of validate(), make_task(), make_model(), read_source() and copy_source(), and
  /// RemovedError if config.removed is not empty.
  explicit Trainer(const RunConfig& config, std::unique_ptr<Task> own = nullptr);

  /// Takes one optimizer step on the next batch. Returns the new row of the history, or a row of
  /// step 0 if the root rank ended the run. Throws NumericError if the loss or a gradient is not
  /// finite. Before it throws, step() computes loss and gradients a second time, to find the op
  /// that made the first NaN or infinity. After an error, weights and random streams are those
  /// before the step, so that a resumed run takes the same batch again.
  MetricsRow step();
  /// After this call, step() takes each step together with the other ranks of the session, which
  /// must join with the same run. Each rank computes its share of the config.shards shards. All
  /// ranks then have the same bits as a run in one process. If one rank cannot take a step, all
  /// ranks throw the error that one process would throw, and the session ends. `ranks` must outlive
  /// this Trainer. Throws ValueError unless the number of ranks is a power of two and at most
  /// config.shards.
  void join(RankSession& ranks);

  /// Evaluates the model on config.eval_batch sequences, or on final_evaluation_size() sequences if
  /// `all` is true. If the task holds out data, evaluates config.eval_train training sequences as
  /// well, for the history only. Adds the result to the history, and keeps a copy of the weights if
  /// the loss is finite and the lowest so far.
  Evaluation evaluate(bool all, const ProgressCallback& progress = {});
  /// Returns whether the history contains an evaluation of the current weights.
  bool evaluated() const;

  /// Returns the configuration of the run.
  const RunConfig& config() const { return config_; }
  /// Changes settings that are not part of the recipe (recipe_text()), such as the number of steps
  /// and the conditions of an early end. If the learning rate decays, the schedule still ends at
  /// the same step, and later steps use min_lr. Throws ValueError that names the first setting of
  /// the recipe that differs, and the errors of validate().
  void set(const RunConfig& config);

  /// Returns the state after the last step. The tensors of the snapshot share this trainer's
  /// memory, so the next step changes them. Use or copy them before that.
  Snapshot snapshot() const;
  /// Returns a trainer that continues from `snapshot`, bit for bit on the same binary and SIMD
  /// target. If the run was trained on a user-defined task, `own` must be that task. Throws IoError
  /// that names the part of the snapshot that does not match, such as a text that has changed.
  static Trainer from(const Snapshot& snapshot, std::unique_ptr<Task> own = nullptr);

  std::unique_ptr<Task> task;  ///< task of the run
  Transformer model;           ///< model in training
  Index steps_done = 0;        ///< optimizer steps taken so far

  /// Returns the names of the parameters whose gradient was missing, or zero everywhere, in the
  /// last step. Each call reads all elements of all gradients.
  std::vector<std::string> parameters_without_gradient() const;

  /// Returns one row per step, which also contains the evaluation after the step if there was one.
  const std::vector<MetricsRow>& history() const { return history_; }

  /// Returns why the last evaluation ends the run early, such as "patience: ...", or "" if it does
  /// not. The result depends only on the history, so that a resumed run ends at the same step as an
  /// uninterrupted one.
  std::string stop_reason() const;

 private:
  // `is_new` is false if the weights will be those of a snapshot, and config.from is not read.
  Trainer(const RunConfig& config, std::unique_ptr<Task> own, bool is_new);
  std::string find_non_finite(const Batch& batch);

  Shards shards_;
  Generator data_, dropout_;
  std::unique_ptr<Optimizer> optimizer_;
  RankSession* ranks_ = nullptr;  // null if one process trains
  std::vector<MetricsRow> history_;
  std::optional<double> best_loss_;
  std::vector<NamedTensor> best_;
  Index best_step_ = 0;
};

}  // namespace heed::lab
