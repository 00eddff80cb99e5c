// Overfitting of one batch. If model and optimizer are correct, the model can memorize the batch.
#pragma once

#include <functional>

#include "nn/train/trainer.h"

namespace heed::nn {

/// Returns the lowest mean loss that is possible on the batch, in nats per target: the entropy of
/// the next token given all tokens before it. It is above 0 if sequences with equal beginnings
/// continue with different tokens.
double entropy_floor(const Batch& batch);

/// State of overfit_batch().
struct Overfit {
  double loss = 0;       ///< loss of the last step, before the update
  double least = 0;      ///< entropy_floor() of the batch
  bool learned = false;  ///< whether `loss` is within 1e-3 of `least`
};

/// Takes steps on one batch, drawn with the seed of the run, until the batch is learned or
/// config.steps steps are done. Calls `progress` after each step. Throws ValueError unless the
/// dropout is 0, and the errors of Trainer::step().
Overfit overfit_batch(Trainer& trainer, const std::function<void(const Overfit&)>& progress = {});

}  // namespace heed::nn
