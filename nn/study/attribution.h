// Attribution of the objective L to the input tokens, by gradients with respect to the embeddings
// and by attention patterns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/objective.h"

namespace heed::nn {

/// The embedding that each token's embedding is compared with. Position embeddings are not changed.
enum class Baseline {
  kZero,  ///< zeros
  kMean,  ///< mean of the embeddings of all tokens in the vocabulary
};

/// Attributions of L to the T tokens of one sequence, in the unit of L. e is a token's embedding.
struct TokenAttribution {
  double value;                        ///< L of the sequence
  double baseline_value;               ///< L if every token has the baseline embedding
  std::vector<double> input_gradient;  ///< [T], (e - baseline) . dL/de
  /// [T], integrated gradients (Sundararajan et al. 2017, eq. 1): the dot product of (e - baseline)
  /// and the mean of dL/de on the straight line from the baseline to e. The sum of these T numbers
  /// differs from value - baseline_value by completeness_error.
  std::vector<double> integrated;
  double completeness_error;  ///< |sum(integrated) - (value - baseline_value)|
};

/// Computes the attributions of one sequence [1, T]. The integral uses Simpson's rule with `points`
/// points. The rule converges slowly near a baseline of zeros, because the normalization of a small
/// vector is steep. Throws ShapeError unless the batch size is 1. Throws ValueError unless points
/// is odd and at least 3.
TokenAttribution token_attribution(const Transformer& model, const Batch& sequence,
                                   const Objective& objective, Baseline baseline,
                                   std::int64_t points = 33);

/// Computes the attention rollout (Abnar & Zuidema 2020, section 3). `patterns` contains the
/// attention weights A of each layer, [1, H, T, T], first layer first. The rollout is the product
/// over layers of I + (mean of A over heads), with each row divided by its sum. Returns [T, T],
/// query by token, float64. Throws ShapeError if `patterns` is empty, if the batch size is not 1,
/// or if two patterns have a different T.
Tensor attention_rollout(std::span<const Tensor> patterns);
/// Computes gradient x attention (Chefer et al. 2021, eq. 5 and 6) from the attention weights A and
/// the gradients dL/dA of each layer. R starts as I. Each layer adds M R to R, where M is the mean
/// over heads of max(0, A * dL/dA). Only weights that raise L contribute. Returns R, [T, T], query
/// by token, float64. Throws the errors of attention_rollout(), and ShapeError if the numbers of
/// patterns and gradients differ.
Tensor attention_relevance(std::span<const Tensor> patterns, std::span<const Tensor> gradients);

}  // namespace heed::nn
