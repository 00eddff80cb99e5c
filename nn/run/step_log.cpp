#include "nn/run/step_log.h"

#include "autograd/base/text.h"
#include "nn/io/limits.h"

namespace heed::nn {

using namespace autograd;

StepLog::StepLog(const RunFolder& folder, const char* name, std::string_view header,
                 std::int64_t last) {
  const std::string path = folder.file(name).string();
  const std::string old = is_there(path) ? read_file(path, kMaxMetricsBytes) : "";
  std::string text;
  if (!header.empty()) text = std::string(header) + "\n";
  // A last line without a line break was truncated by a kill. The header has no step.
  for (std::size_t begin = 0, end; (end = old.find('\n', begin)) != old.npos; begin = end + 1) {
    const std::size_t digits = old.find_first_not_of("0123456789", begin);
    const auto step = parse_number<std::int64_t>(old.substr(begin, digits - begin));
    if (!step || *step > last) continue;
    text += old.substr(begin, end + 1 - begin);
    last_step_ = *step;
  }
  write_file(folder.target(name), std::string_view(text));
  file_.emplace(folder.target(name));
}

void StepLog::write(std::int64_t step, std::string_view lines) {
  if (has(step)) return;
  file_->write(lines);
  last_step_ = step;
}

}  // namespace heed::nn
