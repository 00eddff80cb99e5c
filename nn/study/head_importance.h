// Importance of each head, by a gradient and by the ablation that the gradient estimates. A gate g
// multiplies the head's output: g = 1 does not change the output, and g = 0 replaces it by zeros.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/study/ablation.h"
#include "nn/study/study.h"

namespace heed::nn {

/// Measures of one head's importance, in the unit of the objective L.
struct HeadImportance {
  HeadIndex head;  ///< layer and head
  /// dL/dg at g = 1. -dL/dg is the first-order estimate of the ablation. gradient.mean_absolute is
  /// I_h of Michel et al. 2019 ("Are sixteen heads really better than one?", eq. 2).
  Effect gradient;
  Effect ablation;  ///< L(g = 0) - L(g = 1), which is zero ablation
  /// Minus the integral of dL/dg over g from 0 to 1, mean over the sequences. It equals
  /// ablation.mean up to the error of the numerical integration.
  double integrated;
  double completeness_error;  ///< the error of `integrated`, largest of any sequence
  bool saturated;             ///< is_saturated(gradient.mean, ablation.mean)
};

/// Measures each head of a model on a batch [B, T]. The gates of all other heads are 1. The
/// integral uses Simpson's rule with `points` points. Throws ValueError unless points is odd and at
/// least 3.
std::vector<HeadImportance> head_importance(const Transformer& model, const Batch& batch,
                                            const Objective& objective, std::int64_t points = 33);
/// Calls head_importance() with 33, 129 and 513 points, until the completeness error of every head
/// is at most 0.01. Returns the last result.
std::vector<HeadImportance> refined_head_importance(const Transformer& model, const Batch& batch,
                                                    const Objective& objective);

/// Sets HeadReport::cut of every head of `study`, by zero ablation. `study` must be a study of this
/// model on this batch. This takes one forward pass for each head, and one for the model without
/// ablation.
void measure_cuts(Study& study, const Transformer& model, const Batch& batch,
                  const Objective& objective);

}  // namespace heed::nn
