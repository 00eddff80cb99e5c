#include "nn/train/metrics.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "autograd/base/error.h"
#include "autograd/base/text.h"

namespace heed::nn {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::string csv_line(const MetricsRow& row) {
  std::string line = std::to_string(row.step);
  for (const MetricsColumn& column : kMetricsColumns) {
    const double x = row.*column.value;
    line += "," + (std::isnan(x) ? "" : fmt::format("{:.17g}", x));
  }
  return line + "\n";
}

std::vector<std::string> csv_cells(const std::string& line) {
  std::vector<std::string> list = {""};
  for (const char c : line)
    if (c == ',')
      list.emplace_back();
    else
      list.back() += c;
  return list;
}

// JSON has no infinity either.
std::string jsonl_line(const MetricsRow& row) {
  std::string line = fmt::format(R"({{"version":{},"step":{})", kMetricsVersion, row.step);
  for (const MetricsColumn& column : kMetricsColumns) {
    const double x = row.*column.value;
    line += fmt::format(R"(,"{}":)", column.name) +
            (std::isfinite(x) ? fmt::format("{:.17g}", x) : "null");
  }
  return line + "}\n";
}

}  // namespace

MetricsRow::MetricsRow(std::int64_t step_of_row) : step(step_of_row) {
  for (const MetricsColumn& column : kMetricsColumns) this->*column.value = kNone;
}

std::string metrics_csv(const std::vector<MetricsRow>& history) {
  std::string text = "step";
  for (const MetricsColumn& column : kMetricsColumns) text += std::string(",") + column.name;
  text += "\n";
  for (const MetricsRow& row : history) text += csv_line(row);
  return text;
}

std::vector<MetricsRow> parse_metrics_csv(const std::string& text) {
  std::vector<MetricsRow> rows;
  std::istringstream stream(text);
  std::string line;
  std::getline(stream, line);
  const std::vector<std::string> names = csv_cells(line);
  while (std::getline(stream, line) && !stream.eof()) {
    const std::vector<std::string> values = csv_cells(line);
    if (values.size() != names.size()) continue;
    MetricsRow row(0);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto number = heed::parse_number<double>(values[i]);
      if (names[i] == "step" && number) row.step = std::int64_t(*number);
      for (const MetricsColumn& column : kMetricsColumns)
        if (names[i] == column.name && number) row.*column.value = *number;
    }
    rows.push_back(row);
  }
  return rows;
}

std::string metrics_jsonl(const std::vector<MetricsRow>& history) {
  std::string text;
  for (const MetricsRow& row : history) text += jsonl_line(row);
  return text;
}

MetricsLog::~MetricsLog() { close(); }

void MetricsLog::close() {
  for (File* file : {&csv_, &jsonl_}) {
    if (file->descriptor >= 0) ::close(file->descriptor);
    file->descriptor = -1;
  }
}

void MetricsLog::restart(const std::filesystem::path& folder, std::size_t rows) {
  close();
  rows_ = rows;
  folder_ = folder.string();
  csv_.path = (folder / "metrics.csv").string();
  jsonl_.path = (folder / "metrics.jsonl").string();
  for (File* file : {&csv_, &jsonl_}) {
    file->descriptor = ::open(file->path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    heed::check<autograd::IoError>(file->descriptor >= 0, file->path,
                                   "cannot be opened: ", std::strerror(errno));
  }
}

void MetricsLog::append(const std::vector<MetricsRow>& history) {
  if (rows_ < history.size()) check_folder();
  for (; rows_ < history.size(); ++rows_) {
    csv_.append(csv_line(history[rows_]));
    jsonl_.append(jsonl_line(history[rows_]));
  }
}

void MetricsLog::check_folder() const {
  const bool there = ::access(folder_.c_str(), F_OK) == 0;
  heed::check<autograd::IoError>(there, folder_, "is gone: ", std::strerror(errno),
                                 "; the run's folder was moved or removed while it trains");
}

void MetricsLog::File::append(const std::string& text) const {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(descriptor, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    heed::check<autograd::IoError>(n > 0, path, "cannot be written: ", std::strerror(errno));
    done += std::size_t(n);
  }
}

}  // namespace heed::nn
