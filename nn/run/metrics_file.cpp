#include "nn/run/metrics_file.h"

#include <fmt/format.h>

#include <cmath>

namespace heed::nn {

std::string metrics_line(const MetricsRow& row) {
  std::string line = std::to_string(row.step);
  for (const MetricsColumn& column : kMetricsColumns) {
    const double x = row.*column.value;
    line += "," + (std::isnan(x) ? "" : fmt::format("{:.17g}", x));
  }
  return line + "\n";
}

std::string metrics_csv(const std::vector<MetricsRow>& history) {
  std::string text = "step";
  for (const MetricsColumn& column : kMetricsColumns) text += std::string(",") + column.name;
  text += "\n";
  for (const MetricsRow& row : history) text += metrics_line(row);
  return text;
}

}  // namespace heed::nn
