// How much each head matters, by the gradient and by what it estimates: a gate g on the head's
// output, 1 as it is and 0 to cut it.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/study/ablation.h"
#include "nn/study/study.h"

namespace heed::nn {

struct HeadImportance {
  HeadIndex head;
  /// dL/dg at g = 1; its mean_absolute is the I_h of Michel et al. 2019 ("Are sixteen heads really
  /// better than one?", eq. 2). Minus it is the first-order estimate of the ablation.
  Effect gradient;
  Effect ablation;            ///< L(g = 0) - L(g = 1): to zero
  double integrated;          ///< minus the integral of dL/dg from 0 to 1, the ablation's mean
  double completeness_error;  ///< the largest |integrated - ablation| of a sequence
  bool saturated;             ///< is_saturated() of the means
};

/// Of every head of a model on a batch [B, T], the others at g = 1; the integral by Simpson's rule
/// with `points`. ValueError unless points is odd and at least 3.
std::vector<HeadImportance> head_importance(const Transformer& model, const Batch& batch,
                                            const Objective& objective, std::int64_t points = 33);
/// The same with as many points as bring every integral within 0.01 of its ablation, up to 513.
std::vector<HeadImportance> refined_head_importance(const Transformer& model, const Batch& batch,
                                                    const Objective& objective);

/// Sets HeadReport::cut of every head: one forward pass a head over the study's sequences.
void measure_cuts(Study& study, const Transformer& model, const Batch& batch,
                  const Objective& objective);

}  // namespace heed::nn
