#include "nn/run/heads_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "nn/io/limits.h"

namespace heed::nn {

HeadsLog::HeadsLog(const RunFolder& folder, std::int64_t last) {
  const std::string path = folder.file(RunFolder::kHeads).string();
  const std::string old =
      std::filesystem::exists(path) ? autograd::read_file(path, kMaxMetricsBytes) : "";
  std::string text = "step,layer,head,quantity,value\n";
  // A last line without a line break was truncated by a kill. The header has no step.
  for (std::size_t begin = 0, end; (end = old.find('\n', begin)) != old.npos; begin = end + 1) {
    const std::string line = old.substr(begin, end + 1 - begin);
    const auto step = parse_number<std::int64_t>(line.substr(0, line.find(',')));
    if (!step || *step > last) continue;
    text += line;
    step_ = std::max(step_, *step);
  }
  autograd::write_file(folder.target(RunFolder::kHeads), std::string_view(text));
  file_.emplace(folder.target(RunFolder::kHeads));
}

void HeadsLog::append(std::int64_t step, const std::vector<HeadsRow>& rows) {
  if (step <= step_) return;
  std::string text;
  for (const HeadsRow& row : rows)
    text += fmt::format("{},{},{},{},{}\n", step, row.layer, row.head, row.quantity,
                        std::isnan(row.value) ? "" : fmt::format("{:.17g}", row.value));
  file_->write(text);
  step_ = step;
}

}  // namespace heed::nn
