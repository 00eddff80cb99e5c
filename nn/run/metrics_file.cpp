#include "nn/run/metrics_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <string_view>

#include "autograd/base/error.h"
#include "nn/io/csv.h"

namespace heed::nn {

using autograd::IoError;

namespace {

constexpr const char* kStep = "step";

std::string csv_line(const MetricsRow& row) {
  std::string line = std::to_string(row.step);
  for (const MetricsColumn& column : kMetricsColumns) {
    const double x = row.*column.value;
    line += "," + (std::isnan(x) ? "" : fmt::format("{:.17g}", x));
  }
  return line + "\n";
}

}  // namespace

std::string metrics_csv(const std::vector<MetricsRow>& history) {
  std::string text = kStep;
  for (const MetricsColumn& column : kMetricsColumns) text += std::string(",") + column.name;
  text += "\n";
  for (const MetricsRow& row : history) text += csv_line(row);
  return text;
}

std::vector<MetricsRow> parse_metrics_csv(const std::string& text, const std::string& path) {
  // All complete lines. Without a line break this is "", because npos + 1 is 0.
  const std::string_view whole(text.data(), text.rfind('\n') + 1);
  std::vector<MetricsRow> rows;
  if (whole.find('\n') + 1 == whole.size()) return rows;  // the text has only a header, or nothing
  const CsvMatrix csv = parse_csv(whole, path);
  check<IoError>(!csv.col_names.empty() && csv.col_names[0] == kStep, path,
                 "the first column is not '", kStep, "'; heed train did not write this file");
  for (std::int64_t r = 0; r < csv.rows; ++r) {
    const double* values = csv.values.data() + r * csv.cols;
    check<IoError>(values[0] >= 0 && values[0] < 1e15, path, "row ", r + 1,
                   " has an invalid step: ", values[0]);
    MetricsRow& row = rows.emplace_back(std::int64_t(values[0]));
    for (std::size_t c = 1; c < csv.col_names.size(); ++c)
      for (const MetricsColumn& column : kMetricsColumns)
        if (csv.col_names[c] == column.name) row.*column.value = values[c];
  }
  return rows;
}

void MetricsLog::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

void MetricsLog::restart(const std::filesystem::path& file, std::size_t rows) {
  close();
  rows_ = rows;
  file_ = file;
  descriptor_ = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  check<IoError>(descriptor_ >= 0, file.string(), "cannot be opened: ", std::strerror(errno));
}

void MetricsLog::append(const std::vector<MetricsRow>& history) {
  if (rows_ == history.size()) return;
  // Writing to an open file succeeds even if its directory was removed, so the directory is checked
  // first.
  const std::filesystem::path folder = file_.parent_path();
  const bool exists = ::access(folder.empty() ? "." : folder.c_str(), F_OK) == 0;
  check<IoError>(exists, folder.string(), "does not exist any more: ", std::strerror(errno),
                 "; the run's directory was moved or removed during training");
  for (; rows_ < history.size(); ++rows_) write(csv_line(history[rows_]));
}

void MetricsLog::write(const std::string& text) const {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(descriptor_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    check<IoError>(n > 0, file_.string(), "cannot be written: ", std::strerror(errno));
    done += std::size_t(n);
  }
}

}  // namespace heed::nn
