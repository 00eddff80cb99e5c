// What heed train does with a trainer: it runs it to its end, shows the progress and draws
// pictures.
#pragma once

#include <string>
#include <vector>

#include "nn/run/run_folder.h"
#include "nn/train/rank_session.h"
#include "tools/heed/report/evaluation_report.h"

namespace heed {

struct TrainOptions {
  bool strict = false;               ///< a parameter without gradient ends the run, NumericError
  bool quiet = false;                ///< no progress, only warnings
  nn::RankSession* ranks = nullptr;  ///< joined by the trainer; null: one process
};

/// Comments of config.toml: how to use it, and the version of heed.
std::vector<std::string> config_notes();

inline constexpr Column kTrainBefore[] = {{"task"}, {"steps"}, {"seconds"}, {"tokens_per_s"}};
inline constexpr Column kTrainAfter[] = {{"run"}, {"parameters"}, {"seed"}, {"ranks"}, {"stopped"}};
inline constexpr auto kTrainKeys = joined(kTrainBefore, kEvaluationKeys, kTrainAfter);

/// Trains up to config.steps and keeps the run in `folder` (nn::TrainingRun). Ctrl-C stops and
/// saves. NumericError and CheckError after a save. Of several ranks, which have joined, rank 0
/// calls this; it alone evaluates, writes and prints.
Report train_run(nn::Trainer& trainer, const nn::RunFolder& folder, const TrainOptions& options);

}  // namespace heed
