// The objective L of a study: the scalar that the study differentiates. It is a loss, a logit or a
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
    kLoss,             ///< cross-entropy, mean over the targets at the positions, nats
    kLogit,            ///< logit of token `a`, mean over the positions
    kDifference,       ///< logit of `a` minus logit of `b`, mean over the positions
  } kind = kLoss;      ///< kind of this objective
  std::int64_t a = 0;  ///< a token in [0, classes); not used by kLoss
  std::int64_t b = 0;  ///< a token in [0, classes); used only by kDifference
  /// Positions at which L is computed, counted from 0. A BOS token has a position. If the list is
  /// empty, kLoss uses all positions that have a target, and the other kinds use the last position.
  std::vector<std::int64_t> positions = {};
};

/// Computes L of each sequence from the logits [B, T, classes] of a batch. Returns [B], in the
/// dtype of the logits. Throws ValueError if a position or a token is out of range, or if L is a
/// loss and a sequence has no target at the positions.
Tensor objective_values(const Tensor& logits, const Batch& batch, const Objective& objective);

}  // namespace heed::nn
