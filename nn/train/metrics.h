// The history of a run: a row per step or evaluation, kept as metrics.csv and metrics.jsonl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace heed::nn {

/// NaN stands for "none": a row of an evaluation alone has no loss, most steps have no evaluation.
struct MetricsRow {
  std::int64_t step = 0;
  double loss, lr, grad_norm, clipped_norm;       ///< of the step's batch; norms: before, after
  double eval_loss, eval_optimal, eval_accuracy;  ///< of the evaluation after the step

  explicit MetricsRow(std::int64_t step_of_row);
};

/// The columns after the step, in the files' order.
struct MetricsColumn {
  const char* name;
  double MetricsRow::*value;
};
inline constexpr MetricsColumn kMetricsColumns[] = {{"loss", &MetricsRow::loss},
                                                    {"lr", &MetricsRow::lr},
                                                    {"grad_norm", &MetricsRow::grad_norm},
                                                    {"eval_loss", &MetricsRow::eval_loss},
                                                    {"eval_optimal", &MetricsRow::eval_optimal},
                                                    {"eval_accuracy", &MetricsRow::eval_accuracy},
                                                    {"clipped_norm", &MetricsRow::clipped_norm}};

/// "version" in each line of metrics.jsonl; grows when a column changes its meaning.
inline constexpr int kMetricsVersion = 1;

// With 17 digits and no times, so that two runs compare byte for byte.
/// A header, then a line per row; empty where NaN.
std::string metrics_csv(const std::vector<MetricsRow>& history);
/// Reads what metrics_csv() wrote, or a part of its columns. A last line that a kill has torn does
/// not count, nor does one of another length.
std::vector<MetricsRow> parse_metrics_csv(const std::string& text);
/// An object per row, null where NaN.
std::string metrics_jsonl(const std::vector<MetricsRow>& history);

/// Adds rows to the two files while a run trains, each row with one write, so that a kill tears at
/// most the last line. Saving the run rewrites both files whole: restart() after it.
class MetricsLog {
 public:
  MetricsLog() = default;
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;

  /// Goes on with the files of `folder`, which hold the first `rows` rows. IoError.
  void restart(const std::filesystem::path& folder, std::size_t rows);
  /// Writes the rows that are not in the files yet. IoError with path and reason.
  void append(const std::vector<MetricsRow>& history);

 private:
  void close();
  void check_folder() const;  // files of a folder that is gone still take rows
  struct File {
    std::string path;
    int descriptor = -1;
    void append(const std::string& text) const;
  };
  std::string folder_;
  File csv_, jsonl_;
  std::size_t rows_ = 0;
};

}  // namespace heed::nn
