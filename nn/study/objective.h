// The objective L of a study: the scalar that is differentiated. It is a loss, a logit or a
// difference of logits, at chosen positions.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/tasks/task.h"

namespace heed::nn {

/// Defines the scalar L of each sequence.
struct Objective {
  /// Kinds of objective.
  enum Kind {
    kLoss,             ///< mean cross-entropy over the sequence's targets, nats
    kLogit,            ///< the logit of token `a`, mean over the positions
    kDifference,       ///< the logit of `a` minus the logit of `b`, mean over the positions
  } kind = kLoss;      ///< the kind
  std::int64_t a = 0;  ///< a token in [0, classes); unused for a loss
  std::int64_t b = 0;  ///< a token in [0, classes); used for a difference alone
  /// Positions from 0; a BOS token counts as a position. If empty, a loss is taken at all positions
  /// that have a target, and a logit at the last position.
  std::vector<std::int64_t> positions = {};
};

/// Computes L of each sequence from logits [B, T, classes] and their batch. Returns [B], in the
/// dtype of the logits. Throws ValueError if a position or token is out of range, or if L is a loss
/// and a sequence has no target at these positions.
Tensor objective_values(const Tensor& logits, const Batch& batch, const Objective& objective);

}  // namespace heed::nn
