// Training: a model, a task, an optimiser, and the run folder that keeps them. Prints nothing;
// whoever calls watches through a callback.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "nn/config.h"
#include "nn/optim.h"
#include "nn/task.h"

namespace heed::nn {

/// Nats per counted token, over a set of sequences.
struct Evaluation {
  double loss = 0;
  std::optional<double> optimal;   ///< of the best possible predictor on the same sequences
  std::optional<double> standard_error;  ///< of loss - optimal (of loss, if optimal is unknown)
  std::optional<double> accuracy;  ///< the task's own metric, 0 to 1
  std::vector<std::pair<std::string, double>> lines;  ///< other reference losses: "copy-only"
  std::vector<double> position_loss;  ///< mean loss at each position, NaN where none counts
  std::int64_t sequences = 0, tokens = 0;
};

/// `sequences` of the task's evaluation (0: all of a text's validation split), from its own stream:
/// evaluating more or less often changes nothing else.
Evaluation evaluate(const Transformer& model, Task& task, std::int64_t sequences,
                    std::int64_t batch);

struct StepReport {
  std::int64_t step = 0;       ///< steps done
  double loss = 0;             ///< of this step's batch, nats
  double lr = 0, grad_norm = 0;  ///< norm before clipping
  std::optional<Evaluation> evaluation;
};

/// A run in progress. The same config gives the same bits, however it is interrupted and resumed.
class Trainer {
 public:
  /// Makes the model and its streams. ValueError / IoError as validate() and make_task().
  explicit Trainer(const RunConfig& config);

  /// One optimiser step. NumericError naming the first non-finite parameter gradient or the loss.
  /// With `fixed`, that batch every time (--overfit-batch).
  StepReport step(const Batch* fixed = nullptr);
  /// With all = true over all of a text's validation split.
  Evaluation evaluate(bool all);

  RunConfig config;
  std::unique_ptr<Task> task;
  Transformer model;
  std::int64_t steps_done = 0;
  /// Smallest evaluation loss so far.
  std::optional<double> best_loss;
  std::vector<StepReport> history;

  /// Names of parameters whose gradient was missing or all zero in the last step.
  std::vector<std::string> severed_parameters() const;

  /// The run folder: model, optimiser, generators, history; each file replaced atomically.
  void save(const std::filesystem::path& folder) const;
  /// Continues where save() stopped, bit for bit.
  static Trainer resume(const std::filesystem::path& folder);
  /// metrics.csv: step,loss,lr,grad_norm,eval_loss,eval_optimal,eval_accuracy; 17 digits, no times.
  std::string metrics_csv() const;

 private:
  Generator data_, dropout_;
  AdamW optimiser_;
  std::vector<std::string> severed_;
};

/// What eval, generate and study open: config, task and weights of a run folder.
struct LoadedRun {
  RunConfig config;
  std::unique_ptr<Task> task;
  Transformer model;
};
/// Reads config.toml and model.safetensors (or `weights`, a file name in the folder). IoError naming
/// what is missing or damaged.
LoadedRun load_run(const std::filesystem::path& folder,
                   const std::string& weights = "model.safetensors");

struct SampleOptions {
  double temperature = 1;     ///< > 0
  std::int64_t top_k = 0;     ///< keep the k most likely; 0: all
  double top_p = 1;           ///< keep the smallest set of at least this probability, in (0, 1]
  bool greedy = false;        ///< always the most likely
};
/// Extends `ids` by n tokens, cropping to the model's context; emit(id) after each, false stops.
void generate(const Transformer& model, std::vector<std::int64_t> ids, std::int64_t n,
              const SampleOptions& options, Generator& g,
              const std::function<bool(std::int64_t)>& emit);

}  // namespace heed::nn
