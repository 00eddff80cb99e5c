#include "nn/run/metrics_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "autograd/base/files.h"
#include "autograd/base/text.h"

namespace heed::nn {

using autograd::InputFile;

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

std::optional<std::int64_t> last_step_in(const std::string& path) {
  constexpr std::uint64_t kMostBytes = 4096;  // two lines are shorter
  const InputFile file(path);
  std::string text(std::size_t(std::min(kMostBytes, file.size())), '\0');
  file.read(file.size() - text.size(), std::as_writable_bytes(std::span(text)));
  text.resize(text.rfind('\n') + 1);  // a kill may have truncated the last line
  const std::size_t begin = text.size() < 2 ? 0 : text.rfind('\n', text.size() - 2) + 1;
  return parse_number<std::int64_t>(text.substr(begin, text.find(',', begin) - begin));
}

}  // namespace heed::nn
