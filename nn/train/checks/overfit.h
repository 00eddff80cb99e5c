// Learning one batch by heart: what every model and optimizer that works can do.
#pragma once

#include <functional>

#include "nn/train/trainer.h"

namespace heed::nn {

/// Mean nats per target of a predictor that knows the batch by heart: the entropy of the next token
/// among the sequences that begin alike. Above 0 where equal beginnings continue differently.
double entropy_floor(const Batch& batch);

struct Overfit {
  double loss = 0, least = 0;  ///< of the last step, before its update; entropy_floor()
  bool learned = false;        ///< the loss is within 1e-3 of the least possible
};

/// Steps on one batch, drawn by the seed of the run, until it is learned or config.steps are done.
/// Dropout must be 0. `progress` is called after each step. ValueError; errors as Trainer::step().
Overfit overfit_batch(Trainer& trainer, const std::function<void(const Overfit&)>& progress = {});

}  // namespace heed::nn
