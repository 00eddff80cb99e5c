// Overfitting of one batch. If model and optimizer are correct, the model can memorize the batch.
#pragma once

#include <functional>

#include "nn/train/trainer.h"

namespace heed::nn {

/// Returns the lowest mean loss that a model with these options can have on the batch, in nats per
/// target: the entropy of the next token given all that the model can distinguish. It can
/// distinguish the beginnings of sequences, or the last tokens if `window` is set. Without absolute
/// positions, a model cannot count equal tokens with no other token before them; one
/// layer without positions distinguishes only the share of each token and the last token. The
/// result is above 0 if equal beginnings continue with different tokens.
double entropy_floor(const Batch& batch, const Transformer::Options& model);

/// State of overfit_batch().
struct Overfit {
  double loss = 0;        ///< loss of the last step, before the update
  double least_seen = 0;  ///< lowest loss of a step so far
  double least = 0;       ///< entropy_floor() of the batch
  bool learned = false;   ///< whether `loss` is within 1e-3 of `least`
  /// True if the second half of the steps lowers the lowest loss by more than 1 % of its distance
  /// from `least`.
  bool falls = false;
};

/// Takes steps on one batch, drawn with the seed of the run, until the batch is learned or
/// config.steps steps are done. With a learning rate that decays, `falls` becomes false, because
/// late steps change little. Calls `progress` after each step. Throws ValueError unless the dropout
/// is 0, and the errors of Trainer::step().
Overfit overfit_batch(Trainer& trainer, const std::function<void(const Overfit&)>& progress = {});

}  // namespace heed::nn
