// What heed train does with a trainer: runs it to its end and keeps the run.
#pragma once

#include <filesystem>
#include <string>

#include "nn/train/trainer.h"

namespace heed {

struct TrainOptions {
  std::string out;                   ///< the run's folder; empty: the next free runs/TASK-N
  bool strict = false;               ///< a parameter without gradient ends the run, NumericError
  bool quiet = false;                ///< no progress, only warnings
  bool json = false;                 ///< the result as one JSON object
  nn::RankSession* ranks = nullptr;  ///< joined by the trainer; null: one process
};

/// Saves the trainer as it is.
void save_run(const nn::Trainer& trainer, const std::filesystem::path& folder);
/// Saves its configuration alone: its text was moved.
void save_config(const nn::Trainer& trainer, const std::filesystem::path& folder);
/// Trains up to config.steps and keeps the run in `folder`, where it is saved. Ctrl-C ends after
/// the step, or within an evaluation, saved. Returns the exit code; NumericError, after saving, as
/// Trainer::step or where an evaluation is not finite. Weights that are not finite replace no save.
/// Of several ranks, which have joined, rank 0 comes here; it alone evaluates, writes and talks.
int train_run(nn::Trainer& trainer, const std::filesystem::path& folder,
              const TrainOptions& options);

}  // namespace heed
