// Importance of each head, by its gradient and by what the gradient estimates. A gate g multiplies
// the head's output: g = 1 leaves it as it is, and g = 0 ablates it.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/study/ablation.h"
#include "nn/study/study.h"

namespace heed::nn {

/// Measures of one head's importance. Units are those of L.
struct HeadImportance {
  HeadIndex head;  ///< layer and head
  /// dL/dg at g = 1. Its negative is the first-order estimate of the ablation. Its mean_absolute is
  /// I_h of Michel et al. 2019 ("Are sixteen heads really better than one?", eq. 2).
  Effect gradient;
  Effect ablation;  ///< L(g = 0) - L(g = 1), zero ablation
  /// Minus the integral of dL/dg over g from 0 to 1. Up to the quadrature's error it equals the
  /// mean of the ablation.
  double integrated;
  double completeness_error;  ///< largest |integrated - ablation| of any sequence
  bool saturated;             ///< is_saturated() of the means of gradient and ablation
};

/// Measures every head of a model on a batch [B, T], while the gates of all other heads are 1. The
/// integral uses Simpson's rule with `points` points. Throws ValueError unless points is odd and at
/// least 3.
std::vector<HeadImportance> head_importance(const Transformer& model, const Batch& batch,
                                            const Objective& objective, std::int64_t points = 33);
/// Calls head_importance() with 33, 129 and 513 points, until the completeness error of every head
/// is at most 0.01. Returns the last result.
std::vector<HeadImportance> refined_head_importance(const Transformer& model, const Batch& batch,
                                                    const Objective& objective);

/// Measures HeadReport::cut for every head of a study of this batch, by zero ablation. This takes
/// one forward pass for each head.
void measure_cuts(Study& study, const Transformer& model, const Batch& batch,
                  const Objective& objective);

}  // namespace heed::nn
