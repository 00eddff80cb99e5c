// What a study differentiates: a loss, a logit, or a difference of logits, at chosen positions.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/tasks/task.h"

namespace heed::nn {

/// A scalar L of each sequence.
struct Objective {
  enum Kind {
    kLoss,        ///< mean cross-entropy over the sequence's targets, nats
    kLogit,       ///< the logit of token `a`, mean over the positions
    kDifference,  ///< that of `a` minus that of `b`
  } kind = kLoss;
  std::int64_t a = 0, b = 0;  ///< tokens, in [0, classes)
  /// From 0, a BOS counted. Empty: of a loss all that have a target, of a logit the last one.
  std::vector<std::int64_t> positions = {};
};

/// L of each sequence: logits [B, T, classes] and their batch -> [B]. ValueError for a position or
/// token out of range, or a loss of a sequence without a target at these positions.
Tensor objective_values(const Tensor& logits, const Batch& batch, const Objective& objective);

}  // namespace heed::nn
