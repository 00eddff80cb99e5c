// Prediction of each token of a text: log-probability, rank and the most probable alternative.
#pragma once

#include <optional>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// The prediction of one target from the tokens before it. Logarithms are natural (nats).
struct TokenScore {
  std::int64_t id = 0;           ///< the target
  double log_probability = 0;    ///< log-probability of `id`: its loss in evaluate(), negated
  std::int64_t rank = 1;         ///< 1 + number of classes with a larger logit
  double entropy = 0;            ///< entropy of the predicted distribution
  std::int64_t alternative = 0;  ///< most probable other class; `id` if there is only one class
  double alternative_log_probability = 0;  ///< log-probability of `alternative`
};

/// Scores of a batch of B sequences of T tokens.
struct BatchScores {
  /// Element b T + t is the score of target t of sequence b; no value if the target is kIgnored.
  std::vector<std::optional<TokenScore>> targets = {};
  Tensor logits = {};  ///< [B, T, classes], in the dtype of the model
};
/// Scores the targets of a batch, without dropout. Throws the errors of Transformer::forward(), and
/// NumericError if a logit is not finite.
BatchScores score(const Transformer& model, const Batch& batch);

}  // namespace heed::nn
