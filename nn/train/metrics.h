// The history of a run: a row per step or evaluation. nn/run/metrics_file.h writes it as CSV.
#pragma once

#include <cstdint>
#include <limits>

namespace heed::nn {

struct MetricsRow;

/// A column after the step.
struct MetricsColumn {
  const char* name;
  double MetricsRow::*value;
};

/// NaN stands for "none": a row of an evaluation alone has no loss, most steps have no evaluation.
struct MetricsRow {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  explicit MetricsRow(std::int64_t step_of_row) : step(step_of_row) {}

  std::int64_t step = 0;
  /// Of the step: loss of its batch, learning rate, norms of the gradient before and after
  /// clipping.
  double loss = kNone, lr = kNone, grad_norm = kNone, clipped_norm = kNone;
  /// Of the evaluation after the step.
  double eval_loss = kNone, eval_optimal = kNone, eval_accuracy = kNone;
};

/// The columns in the order of the files. A new column goes to the end: a file of a run that began
/// before it then reads as one without it.
inline constexpr MetricsColumn kMetricsColumns[] = {{"loss", &MetricsRow::loss},
                                                    {"lr", &MetricsRow::lr},
                                                    {"grad_norm", &MetricsRow::grad_norm},
                                                    {"eval_loss", &MetricsRow::eval_loss},
                                                    {"eval_optimal", &MetricsRow::eval_optimal},
                                                    {"eval_accuracy", &MetricsRow::eval_accuracy},
                                                    {"clipped_norm", &MetricsRow::clipped_norm}};

}  // namespace heed::nn
