// Text of metrics.csv, the history of a run. The file grows during training.
#pragma once

#include <string>
#include <vector>

#include "nn/train/metrics.h"

namespace heed::nn {

/// Returns the text of metrics.csv: a header and a line per row. NaN is written as an empty field.
/// Numbers have 17 significant digits and no column contains a time, so that equal runs have equal
/// files.
std::string metrics_csv(const std::vector<MetricsRow>& history);
/// Returns the line of one row, with its line break.
std::string metrics_line(const MetricsRow& row);

}  // namespace heed::nn
