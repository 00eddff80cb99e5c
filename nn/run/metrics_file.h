// Writes metrics.csv, the history of a run. The file grows during training. heed reads it only to
// find the current step of a run that is training, and to compare it with state.safetensors.
#pragma once

#include <cstdint>
#include <optional>
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
/// Returns the step in the last whole line of a metrics.csv, which a running process may extend.
/// Reads only the end of the file. Returns nothing if the file has no whole line below its header.
/// Throws IoError if the file cannot be read.
std::optional<std::int64_t> last_step_in(const std::string& path);

}  // namespace heed::nn
