#include "nn/run/metrics_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "nn/io/limits.h"
#include "nn/io/safetensors_format.h"

namespace heed::nn {

using autograd::IoError;

namespace {

constexpr const char* kStep = "step";

std::string header_line() {
  std::string line = kStep;
  for (const MetricsColumn& column : kMetricsColumns) line += std::string(",") + column.name;
  return line;
}

// Returns whether this is the first line of a metrics.csv. Older versions wrote fewer columns, and
// newer versions may append columns.
bool is_header(const std::string& text) {
  const std::string line = text + ",", known = header_line() + ",";
  return line.starts_with(known) || known.starts_with(line);
}

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
  std::string text = header_line() + "\n";
  for (const MetricsRow& row : history) text += csv_line(row);
  return text;
}

std::vector<MetricsRow> parse_metrics_csv(const std::string& text, const std::string& path) {
  std::size_t line = 0, columns = 0;
  const auto refuse = [&](const auto&... parts) {
    heed::fail<IoError>(path, "damaged, line ", std::max<std::size_t>(line, 1), ": ", parts...);
  };
  std::vector<MetricsRow> rows;
  // A last line without a line break was truncated by a kill.
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const std::string content = text.substr(begin, end - begin);
    const std::size_t size = std::size_t(std::ranges::count(content, ',')) + 1;
    if (++line == 1) {
      if (!is_header(content)) break;
      if (size > kMaxCsvColumns) refuse("it has more than ", kMaxCsvColumns, " fields");
      columns = size;
      continue;
    }
    if (size != columns) refuse("it has ", size, " fields, needs ", columns);
    const std::vector<std::string> fields = heed::split(content, ',');
    const auto step = parse_number<std::int64_t>(fields[0]);
    if (!step || (rows.empty() ? *step != 0 && *step != 1 : *step != rows.back().step + 1))
      refuse("its step is ", safetensors::quoted(fields[0]), ", needs ",
             rows.empty() ? "0 or 1" : std::to_string(rows.back().step + 1));
    MetricsRow& row = rows.emplace_back(*step);
    for (std::size_t c = 1; c < columns; ++c) {
      const auto value = fields[c].empty() ? MetricsRow::kNone : parse_number<double>(fields[c]);
      if (!value) refuse(safetensors::quoted(fields[c]), " is not a number");
      if (c <= std::size(kMetricsColumns)) row.*kMetricsColumns[c - 1].value = *value;
    }
  }
  if (columns == 0) refuse("it is not '", header_line(), "'");
  return rows;
}

void MetricsLog::restart(const autograd::PathAt& file, std::size_t rows) {
  file_.emplace(file);
  rows_ = rows;
}

void MetricsLog::append(const std::vector<MetricsRow>& history) {
  for (; rows_ < history.size(); ++rows_) file_->write(csv_line(history[rows_]));
}

}  // namespace heed::nn
