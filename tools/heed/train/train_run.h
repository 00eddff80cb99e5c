// The training loop of `heed train`: it runs a trainer to its end, prints progress and draws
// pictures.
#pragma once

#include <string>
#include <vector>

#include "nn/lab/run/run_folder.h"
#include "nn/lab/train/rank_session.h"
#include "tools/heed/report/evaluation_report.h"

namespace heed {

/// Options of train_run().
struct TrainOptions {
  bool strict = false;                ///< throw NumericError if a parameter gets no gradient
  bool quiet = false;                 ///< print no progress, only warnings
  lab::RankSession* ranks = nullptr;  ///< session of the trainer; null: there is only one process
};

/// Returns the comments of config.toml: how to use the file, and the version of heed.
std::vector<std::string> config_notes();

/// Trains up to config.steps and saves the run in `folder` (lab::TrainingRun). Ctrl-C stops and
/// saves the run. Throws the errors of TrainingRun::run(), and CheckError instead of LeakError. If
/// the weights or their loss are not finite, the last save stays in `folder`. With several ranks,
/// only the root rank calls this function, evaluates, writes and prints.
Out train_run(lab::Trainer& trainer, lab::LockedFolder folder, const TrainOptions& options);

// Progress lines. Each line has at most 80 columns, however large its numbers are. Losses are in
// nats per token. Facts that do not change are printed once, so that the lines of steps and
// evaluations fit.

/// Progress of a run after a step.
struct StepState {
  lab::MetricsRow report;  ///< numbers of the step
  Index steps;             ///< steps of the whole run
  double optimal;          ///< optimal loss, nats; NaN if unknown
  double tokens_per_s;     ///< training speed
  double seconds_left;     ///< estimate; NaN if unknown
};

/// Returns the live line of a step:
///     120/400  loss 1.2345 (+0.0171)  lr 3.0e-3  grad 0.5234  21s left  61.2k tok/s
/// The loss is measured on the batch of the step. The number in parentheses is the loss minus the
/// optimal loss. A field that does not fit is left out.
std::string step_line(const StepState& s);
/// Returns the line of an evaluation:
///     step  120/400  eval_loss 1.2345 (+0.0171)  repeat tokens right 98.2 %  21s left
/// The number in parentheses is the loss minus the optimal loss. It is left out if the optimal loss
/// is 0 or unknown. `train_loss` is the loss on training sequences, or NaN. A field that does not
/// fit is left out.
std::string evaluation_line(const lab::Evaluation& e, double train_loss, const lab::TaskInfo& info,
                            const StepState& s);
/// Returns the second line of a run: parameters, steps, batch, shards, seed and threads.
std::string start_line(const lab::Trainer& trainer);
/// Returns the lines that are printed before the first evaluation_line(): the number of sequences
/// that are evaluated, and the optimal loss and other reference losses on these sequences.
std::vector<std::string> evaluation_info(const lab::Evaluation& e, const lab::Task& task);

/// Returns a prompt and its continuation by the model, as one line with escapes such as \n, for
/// config.sample_every. The prompt is a newline for texts and lines, and the first half of the
/// task's example for other tasks. Texts continue for 100 tokens, sequences of tasks to their end.
/// The random numbers depend only on seed and step.
std::string sample_line(const lab::Trainer& trainer);

}  // namespace heed
