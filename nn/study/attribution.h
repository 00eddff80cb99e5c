// Which tokens L comes from: by the embeddings' gradients, and by what heads look at.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/study/objective.h"
#include "nn/study/study.h"

namespace heed::nn {

/// What every token's embedding is compared with; positions stay what they are.
enum class Baseline {
  kZero,
  kMean,  ///< the mean over the vocabulary's embeddings
};

struct TokenAttribution {
  double value, baseline_value;        ///< L, and L with the baseline at every token
  std::vector<double> input_gradient;  ///< [T]: (e - baseline) . dL/de
  /// [T]: (e - baseline) . the mean of dL/de on the straight line from the baseline to e
  /// (integrated gradients: Sundararajan et al. 2017, eq. 1). They sum to value - baseline_value:
  std::vector<double> integrated;
  double completeness_error;  ///< but for this, the quadrature's error
};

/// Of `one` sequence [1, T], by Simpson's rule with `points`, which is slow to converge where
/// normalization is steep: at a baseline of zeros. ShapeError for another batch size; ValueError
/// unless points is odd and at least 3.
TokenAttribution token_attribution(const Transformer& model, const Batch& one,
                                   const Objective& objective, Baseline baseline,
                                   std::int64_t points = 33);

/// Attention rollout (Abnar & Zuidema 2020, section 3) of patterns [1, H, T, T], from the first
/// layer on: the product over layers of (mean over heads of A + I), rows divided by their sum.
/// [T, T] by query, then token, float64. ShapeError for other patterns, or none.
Tensor attention_rollout(std::span<const Tensor> patterns);
/// Gradient x attention (Chefer et al. 2021, eq. 5 and 6): R = I, then for each layer
/// R += M R with M the mean over heads of the positive part of A * dL/dA. [T, T] likewise: what
/// raises L.
Tensor attention_relevance(std::span<const Tensor> patterns, std::span<const Tensor> gradients);

struct AttentionFlow {
  Tensor rollout, relevance;  ///< [T, T], float64
};
/// Both of the study of one sequence [1, T].
AttentionFlow attention_flow(const Study& study);

}  // namespace heed::nn
