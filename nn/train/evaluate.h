// Evaluates a model on a task: its loss beside the best possible one on the same sequences.
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

/// Nats per target, over a set of sequences.
struct Evaluation {
  double loss = 0;
  std::optional<double> optimal;         ///< of the best possible predictor, same sequences
  std::optional<double> standard_error;  ///< of loss - optimal over sequences (of loss, if unknown)
  std::optional<double> accuracy;        ///< over the positions the task counts, 0 to 1
  std::vector<std::pair<std::string, double>> references;  ///< same sequences: {"copy-only", 1.37}
  std::vector<double> position_loss;     ///< mean loss at each position, NaN where none counts
  std::vector<double> position_optimal;  ///< of the best possible predictor; empty if unknown
  std::int64_t sequences = 0, tokens = 0;
  /// If the loss is not finite, the op that first turned finite numbers into others.
  std::string trouble = {};
};

/// Returns whether the loss is more than 4 standard errors below the best possible one, as only
/// that of a model which sees its targets can be.
bool leaks(const Evaluation& e);
/// Returns the sentence about it, with the numbers.
std::string leak_text(const Evaluation& e);

/// Returns how many sequences evaluate() runs at a time.
std::int64_t evaluation_chunk(const Transformer& model, const TaskInfo& info);

/// Evaluates the first `sequences` of the task's evaluation set (at most all of it; 0: all), in
/// eval mode. Draws nothing from any stream: evaluating more or less often changes nothing else.
/// `progress` receives sequences.
Evaluation evaluate(const Transformer& model, const Task& task, std::int64_t sequences = 0,
                    const ProgressCallback& progress = {});

}  // namespace heed::nn
