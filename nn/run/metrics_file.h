// metrics.csv: the history of a run as a file, which grows while the run trains.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "nn/train/metrics.h"

namespace heed::nn {

/// Returns a header and a line per row; NaN is an empty field. Numbers have 17 digits and no column
/// is a time, so two equal runs have equal files.
std::string metrics_csv(const std::vector<MetricsRow>& history);
/// Reads what metrics_csv() wrote. A column that the text lacks is NaN, one that is not known is
/// ignored, and so is a last line without a line break, which a kill has torn. IoError that names
/// `path` for other text.
std::vector<MetricsRow> parse_metrics_csv(const std::string& text, const std::string& path);

/// Appends rows to the metrics.csv of a run that trains, each row with one write: a kill tears at
/// most the last line. RunFolder::save() replaces the file: call restart() after it.
class MetricsLog {
 public:
  MetricsLog() = default;
  ~MetricsLog() { close(); }
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// Continues the file, which holds the first `rows` rows. IoError.
  void restart(const std::filesystem::path& file, std::size_t rows);
  /// Writes the rows that are not in the file yet. IoError with path and reason, also if the run's
  /// directory was moved or removed.
  void append(const std::vector<MetricsRow>& history);

 private:
  void close();
  void write(const std::string& text) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::size_t rows_ = 0;
};

}  // namespace heed::nn
