// Evaluation of a model on a task: its loss and the optimal loss on the same sequences.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/tasks/task.h"
#include "nn/train/progress_callback.h"

namespace heed::nn {

/// Result of evaluate(). Losses are means in nats per target over a set of sequences.
struct Evaluation {
  double loss = 0;                ///< loss of the model
  std::optional<double> optimal;  ///< lowest loss that any model can reach on these sequences
  /// Standard error over sequences of loss - optimal, or of the loss if `optimal` is unknown.
  std::optional<double> standard_error;
  std::optional<double> accuracy;  ///< 0 to 1, over the positions that the task counts
  /// Losses of simple predictors on the same sequences, for example {"copy-only", 1.37}.
  std::vector<std::pair<std::string, double>> references;
  std::vector<double> position_loss;     ///< mean loss at each position; NaN without targets
  std::vector<double> position_optimal;  ///< optimal loss at each position; empty if unknown
  std::int64_t sequences = 0;            ///< sequences that were evaluated
  std::int64_t tokens = 0;               ///< targets that were evaluated
  /// If the loss is not finite: the first op that made a NaN or an infinity of finite inputs.
  std::string trouble = {};
};

/// Returns whether the loss is more than 4 standard errors below the optimal loss. This is only
/// possible if the model reads its targets.
bool leaks(const Evaluation& e);
/// Returns the message for an evaluation that leaks(), with its numbers.
std::string leak_text(const Evaluation& e);

/// Returns the number of sequences in each forward pass of evaluate().
std::int64_t evaluation_chunk(const Transformer& model, const TaskInfo& info);

/// Evaluates the first `sequences` of the task's evaluation set, without dropout. 0, or more than
/// the set has, means all of it. Draws no random numbers, so that evaluating more or less often
/// does not change a run. `progress` receives the number of sequences.
Evaluation evaluate(const Transformer& model, const Task& task, std::int64_t sequences = 0,
                    const ProgressCallback& progress = {});

}  // namespace heed::nn
