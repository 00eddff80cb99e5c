// What heed train does with a trainer: runs it to its end and keeps the run.
#pragma once

#include <filesystem>
#include <string>

#include "nn/train/trainer.h"

namespace heed {

struct TrainOptions {
  std::string out;
  bool strict = false, quiet = false, json = false;
};

/// Trains up to config.steps and keeps the run in `folder`, which is there. Ctrl-C ends after the
/// step, saved. Returns the exit code; NumericError, after saving, as Trainer::step or where an
/// evaluation is not finite.
int train_run(nn::Trainer& trainer, const std::filesystem::path& folder,
              const TrainOptions& options);

}  // namespace heed
