// What heed train does with a trainer: runs it to its end, looks at it without a step, or lets it
// learn one batch by heart.
#pragma once

#include <filesystem>
#include <string>

#include "nn/train.h"

namespace heed {

struct TrainOptions {
  std::string out;
  bool strict = false, quiet = false, json = false;
};

/// Trains up to config.steps and keeps the run in `folder`, which is there. Ctrl-C ends after the
/// step, saved. Returns the exit code; NumericError, after saving, as Trainer::step.
int train_run(nn::Trainer& trainer, const std::filesystem::path& folder,
              const TrainOptions& options);

/// Prints shapes, parameters, work, memory and the course of the learning rate.
int dry_run(nn::Trainer& trainer, const TrainOptions& options);

/// Steps on one batch until its loss is within 1e-3 of the least possible: that of knowing the
/// batch by heart, above 0 where equal beginnings go on differently. kCheckFailed if config.steps
/// do not suffice.
int overfit_batch(nn::Trainer& trainer, const TrainOptions& options);

}  // namespace heed
