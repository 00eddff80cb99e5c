// What heed train does with a trainer: it runs it to its end, shows the progress and draws
// pictures.
#pragma once

#include <string>
#include <vector>

#include "nn/run/run_folder.h"
#include "nn/train/checks/audit.h"
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

// What it prints meanwhile: lines of at most 80 columns whatever the numbers are; losses in nats
// per token. What does not change is printed once, so that the lines of steps and evaluations fit.

/// Where a run is.
struct StepState {
  nn::StepReport report;
  std::int64_t steps;  ///< of the whole run
  double optimal;      ///< nats; NaN if unknown
  double tokens_per_s;
  double seconds_left;  ///< NaN if unknown
};

/// "120/400  loss 1.2345 (+0.0171)  lr 3.0e-3  grad 0.52  2.1 s left  61k tok/s": the loss of this
/// step's batch and, in parentheses, its distance to the best possible one.
std::string step_line(const StepState& s);
/// "step   120/400  eval 1.2345 (+0.0171)  repeat tokens right 98.20 %  2.1 s left  61k tok/s"
std::string evaluation_line(const nn::Evaluation& e, const nn::TaskInfo& info, const StepState& s);
/// What a run trains: model, batch, steps.
std::string start_line(const nn::Trainer& trainer);
/// What evaluation_line leaves out: on which sequences, and the best possible and other reference
/// losses of these very ones.
std::vector<std::string> evaluation_info(const nn::Evaluation& e, const nn::Task& task);

/// The ledger as a table, a parameter a line.
std::string audit_table(const std::vector<nn::ParameterAudit>& audit);
/// Its ranges in one line; those in trouble do not count.
std::string audit_line(const std::vector<nn::ParameterAudit>& audit);

}  // namespace heed
