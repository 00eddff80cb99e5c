// Training: a model, a task, an optimiser, and the run folder that keeps them. Prints nothing;
// who calls step() watches.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "nn/config.h"
#include "nn/evaluate.h"
#include "nn/optim.h"
#include "nn/schedule.h"

namespace heed::nn {

struct StepReport {
  std::int64_t step = 0;  ///< steps done, this one included
  double loss = 0;        ///< of this step's batch, nats
  double lr = 0;
  double grad_norm = 0;   ///< before clipping
};

/// A run in progress. The same config gives the same bits, however often it is evaluated,
/// interrupted and resumed.
class Trainer {
 public:
  /// Makes task, model and streams. Errors as validate() and make_task(); ValueError if the model's
  /// context is not the task's.
  explicit Trainer(const RunConfig& config);

  /// One optimiser step on the next batch, or on `fixed`. NumericError naming the loss, or the first
  /// parameter with a non-finite gradient; the weights are then those before the step.
  StepReport step(const Batch* fixed = nullptr);
  /// Evaluates, remembers the result in the history and the weights if they are the best so far.
  /// `all`: the whole evaluation set, not config.eval_batch sequences of it.
  Evaluation evaluate(bool all);

  RunConfig config;
  std::unique_ptr<Task> task;
  Transformer model;
  Schedule schedule;
  std::int64_t steps_done = 0;

  /// Parameters whose gradient was missing, or zero everywhere, in the last step.
  const std::vector<std::string>& severed() const { return severed_; }

  /// One row per step or evaluation.
  struct Row {
    std::int64_t step;
    double loss, lr, grad_norm;                       ///< NaN in a row of an evaluation alone
    double eval_loss, eval_optimal, eval_accuracy;    ///< NaN where there is none
  };
  const std::vector<Row>& history() const { return history_; }
  /// step,loss,lr,grad_norm,eval_loss,eval_optimal,eval_accuracy: 17 digits, empty where NaN, no
  /// times, so that two runs compare byte for byte.
  std::string metrics_csv() const;

  /// Writes config.toml, model, best and state .safetensors and metrics.csv, each atomically, model
  /// and state last. `notes` go into config.toml as comments.
  void save(const std::filesystem::path& folder, const std::vector<std::string>& notes = {}) const;
  /// Weights only.
  void save_weights(const std::filesystem::path& file) const;
  /// Continues where save() stopped, bit for bit. IoError / ValueError naming what does not fit.
  static Trainer resume(const std::filesystem::path& folder);

 private:
  Row& row_of(std::int64_t step);

  Generator data_, dropout_;
  AdamW optimiser_;
  std::vector<Row> history_;
  std::vector<std::string> severed_;
  std::optional<double> best_loss_;
  std::vector<NamedParameter> best_;
};

/// What eval, generate and study open.
struct LoadedRun {
  RunConfig config;
  std::unique_ptr<Task> task;
  Transformer model;
};
/// Reads config.toml and `weights` of a run folder. IoError / ValueError naming file and reason.
LoadedRun load_run(const std::filesystem::path& folder,
                   const std::string& weights = "model.safetensors");

}  // namespace heed::nn
