// The training loop of heed train: it runs a trainer to its end, prints progress and draws
// pictures.
#pragma once

#include <string>
#include <vector>

#include "nn/run/run_folder.h"
#include "nn/train/checks/audit.h"
#include "nn/train/rank_session.h"
#include "tools/heed/report/evaluation_report.h"

namespace heed {

/// Options of train_run().
struct TrainOptions {
  bool strict = false;               ///< throw NumericError if a parameter gets no gradient
  bool quiet = false;                ///< print no progress, only warnings
  nn::RankSession* ranks = nullptr;  ///< session that the trainer has joined; null: one process
};

/// Returns the comments of config.toml: how to use the file, and the version of heed.
std::vector<std::string> config_notes();

inline constexpr Column kTrainBefore[] = {{"task"}, {"steps"}, {"seconds"}, {"tokens_per_s"}};
inline constexpr Column kTrainAfter[] = {{"run"}, {"parameters"}, {"seed"}, {"ranks"}, {"stopped"}};
inline constexpr auto kTrainKeys = joined(kTrainBefore, kEvaluationKeys, kTrainAfter);

/// Trains up to config.steps and stores the run in `folder` (nn::TrainingRun). Ctrl-C stops and
/// saves the run. Throws NumericError or CheckError after a save. If several ranks have joined,
/// only rank 0 calls this function; it alone evaluates, writes and prints.
Report train_run(nn::Trainer& trainer, const nn::RunFolder& folder, const TrainOptions& options);

// Progress lines. Each has at most 80 columns for any numbers. Losses are in nats per token. Facts
// that do not change are printed once, so that the lines of steps and evaluations fit.

/// Progress of a run after a step.
struct StepState {
  nn::StepReport report;  ///< numbers of the step
  std::int64_t steps;     ///< steps of the whole run
  double optimal;         ///< optimal loss, nats; NaN if unknown
  double tokens_per_s;    ///< training speed
  double seconds_left;    ///< estimate; NaN if unknown
};

/// Returns the live line of a step: "120/400  loss 1.2345 (+0.0171)  lr 3.0e-3  grad 0.5234  21s
/// left  61.2k tok/s". The loss is that of the step's batch; the number in parentheses is its
/// distance to the optimal loss.
std::string step_line(const StepState& s);
/// Returns the line of an evaluation: "step   120/400  eval 1.2345 (+0.0171)  repeat tokens right
/// 98.20 %  21s left". Fields that do not fit are left out at the end.
std::string evaluation_line(const nn::Evaluation& e, const nn::TaskInfo& info, const StepState& s);
/// Returns the first line of a run: parameters, steps, batch, seed and threads.
std::string start_line(const nn::Trainer& trainer);
/// Returns the lines before the first evaluation_line(): the sequences that are evaluated, and the
/// optimal loss and other reference losses on these sequences.
std::vector<std::string> evaluation_info(const nn::Evaluation& e, const nn::Task& task);

/// Returns the audit as a table with one line per parameter.
std::string audit_table(const std::vector<nn::ParameterAudit>& audit);
/// Returns one line with the ranges of the audit. Parameters in trouble are not counted.
std::string audit_line(const std::vector<nn::ParameterAudit>& audit);

}  // namespace heed
