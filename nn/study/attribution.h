// Attribution of L to the input tokens: by gradients of the embeddings, and by attention patterns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/objective.h"
#include "nn/study/study.h"

namespace heed::nn {

/// The embedding that each token's embedding is compared with. Positions are not changed.
enum class Baseline {
  kZero,  ///< zeros
  kMean,  ///< mean over the vocabulary's embeddings
};

/// Attributions of L to the T tokens of one sequence, in the unit of L. e is a token's embedding.
struct TokenAttribution {
  double value;                        ///< L of the sequence
  double baseline_value;               ///< L with the baseline at every token
  std::vector<double> input_gradient;  ///< [T], (e - baseline) . dL/de
  /// [T], integrated gradients (Sundararajan et al. 2017, eq. 1): (e - baseline) . the mean of
  /// dL/de on the straight line from the baseline to e. They sum to value - baseline_value, up to
  /// completeness_error.
  std::vector<double> integrated;
  double completeness_error;  ///< |sum of integrated - (value - baseline_value)|, from quadrature
};

/// Computes the attributions of one sequence [1, T], by Simpson's rule with `points` points. The
/// rule converges slowly where a normalization is steep, as near a baseline of zeros. Throws
/// ShapeError for another batch size, and ValueError unless points is odd and at least 3.
TokenAttribution token_attribution(const Transformer& model, const Batch& sequence,
                                   const Objective& objective, Baseline baseline,
                                   std::int64_t points = 33);

/// Attention rollout (Abnar & Zuidema 2020, section 3) of the patterns [1, H, T, T] of all layers,
/// from the first on. It is the product over layers of (mean over heads of A + I), with each row
/// divided by its sum. Returns [T, T], query by token, float64. Throws ShapeError if there are no
/// patterns or their shapes differ.
Tensor attention_rollout(std::span<const Tensor> patterns);
/// Gradient x attention (Chefer et al. 2021, eq. 5 and 6). It starts with R = I; each layer adds M
/// R to R, where M is the mean over heads of the positive part of A * dL/dA. So it shows what
/// raises L. Returns [T, T], query by token, float64. Throws ShapeError as attention_rollout(), and
/// if the numbers of patterns and gradients differ.
Tensor attention_relevance(std::span<const Tensor> patterns, std::span<const Tensor> gradients);

/// Attention from each query back to the input tokens, through all layers.
struct AttentionFlow {
  Tensor rollout;    ///< [T, T] float64, attention_rollout()
  Tensor relevance;  ///< [T, T] float64, attention_relevance()
};
/// Computes both from the study of one sequence [1, T]. Throws ShapeError for another batch size.
AttentionFlow attention_flow(const Study& study);

}  // namespace heed::nn
