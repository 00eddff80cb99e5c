// Writing of metrics.csv, the history of a run. The file grows while the run trains. heed does not
// read it, except for the step of a run that trains.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "autograd/base/files.h"
#include "nn/train/metrics.h"

namespace heed::nn {

/// Returns the text of metrics.csv: a header and a line per row. NaN is written as an empty field.
/// Numbers have 17 significant digits and no column contains a time, so that equal runs have equal
/// files.
std::string metrics_csv(const std::vector<MetricsRow>& history);
/// Returns the step in the last whole line of a metrics.csv, which a running process may extend.
/// Reads only the end of the file. Returns nothing if there is none.
std::optional<std::int64_t> last_step_in(const std::string& path);

/// Appends rows to the metrics.csv of a run while it trains. Each row is written at once, so that a
/// kill can truncate only the last line. RunFolder::save() replaces the file, so restart() must be
/// called after each save.
class MetricsLog {
 public:
  /// Opens the file, which contains the first `rows` rows of the history. Throws IoError if the
  /// file cannot be opened.
  void restart(const autograd::PathAt& file, std::size_t rows);
  /// Writes the rows of the history that are not in the file yet. Throws IoError if a write fails.
  void append(const std::vector<MetricsRow>& history);

 private:
  std::optional<autograd::AppendFile> file_;
  std::size_t rows_ = 0;  // number of rows in the file
};

}  // namespace heed::nn
