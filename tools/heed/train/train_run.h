// What heed train does with a trainer: runs it to its end, shows its progress and draws its
// pictures.
#pragma once

#include <string>
#include <vector>

#include "nn/run/run_folder.h"
#include "nn/train/rank_session.h"

namespace heed {

struct TrainOptions {
  std::string out;                   ///< the run's folder; empty: the next free runs/TASK-N
  bool strict = false;               ///< a parameter without gradient ends the run, NumericError
  bool quiet = false;                ///< no progress, only warnings
  bool json = false;                 ///< the result as one JSON object
  nn::RankSession* ranks = nullptr;  ///< joined by the trainer; null: one process
};

/// Comments of config.toml: how to use it, and the version of heed.
std::vector<std::string> config_notes();

/// Trains up to config.steps and keeps the run in `folder` (nn::TrainingRun). Ctrl-C stops and
/// saves. Returns the exit code; NumericError and CheckError after a save. Of several ranks, which
/// have joined, rank 0 comes here; it alone evaluates, writes and prints.
int train_run(nn::Trainer& trainer, const nn::RunFolder& folder, const TrainOptions& options);

}  // namespace heed
