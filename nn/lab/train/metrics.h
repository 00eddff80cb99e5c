// History of a run: one row per step, which also contains the evaluation after the step.
// nn/lab/run/snapshot_file.h writes it as CSV.
#pragma once

#include <limits>
#include <string_view>

#include "nn/lab/names.h"

namespace heed::lab {

struct MetricsRow;

/// A column of metrics.csv after the column of steps.
struct MetricsColumn {
  const char* name;           ///< heading in the file
  double MetricsRow::*value;  ///< member of MetricsRow in this column
};

/// Returns whether the column has values of evaluations. Runs with equal steps may differ in these
/// columns, because a resumed run may evaluate more often.
inline bool is_of_evaluation(const MetricsColumn& column) {
  const std::string_view name = column.name;
  return name.starts_with("eval_") || name.starts_with("train_");
}

/// Values of one step, of the evaluation after it, or of both. NaN marks a missing value:
/// a row with only an evaluation has no loss, and most steps have no evaluation.
struct MetricsRow {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  ///< missing value

  Index step = 0;                ///< number of steps done
  double loss = kNone;           ///< loss of the step's batch, nats per target
  double lr = kNone;             ///< learning rate of the step
  double grad_norm = kNone;      ///< global norm of the gradient before clipping
  double clipped_norm = kNone;   ///< global norm of the gradient after clipping
  double eval_loss = kNone;      ///< loss of the evaluation after the step, nats per target
  double eval_optimal = kNone;   ///< optimal loss of the evaluation after the step
  double eval_accuracy = kNone;  ///< accuracy of the evaluation after the step, 0 to 1
  ///@{
  /// Loss and accuracy on training sequences (evaluate_training()) after the step, like eval_loss
  /// and eval_accuracy.
  double train_loss = kNone, train_accuracy = kNone;
  ///@}
};

/// All columns, in the order in which files contain them. New columns must be appended at the end,
/// so that files without them can still be read.
inline constexpr MetricsColumn kMetricsColumns[] = {
    {"loss", &MetricsRow::loss},
    {"lr", &MetricsRow::lr},
    {"grad_norm", &MetricsRow::grad_norm},
    {"eval_loss", &MetricsRow::eval_loss},
    {"eval_optimal", &MetricsRow::eval_optimal},
    {"eval_accuracy", &MetricsRow::eval_accuracy},
    {"clipped_norm", &MetricsRow::clipped_norm},
    {"train_loss", &MetricsRow::train_loss},
    {"train_accuracy", &MetricsRow::train_accuracy}};

}  // namespace heed::lab
