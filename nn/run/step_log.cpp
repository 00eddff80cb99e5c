#include "nn/run/step_log.h"

#include <utility>

#include "autograd/base/text.h"

namespace heed::nn {

using namespace autograd;

StepLog::StepLog(const RunFolder& folder, Trainer& trainer, const char* name,
                 std::string_view header, std::int64_t last)
    : text_(trainer.logs[name]) {
  const std::string old = std::exchange(text_, "");
  if (!header.empty()) text_ = std::string(header) + "\n";
  // Skips the old header, because it does not begin with a step.
  for (std::size_t begin = 0, end; (end = old.find('\n', begin)) != old.npos; begin = end + 1) {
    const std::size_t digits = old.find_first_not_of("0123456789", begin);
    const auto step = parse_number<std::int64_t>(old.substr(begin, digits - begin));
    if (!step || *step > last) continue;
    text_ += old.substr(begin, end + 1 - begin);
    last_step_ = *step;
  }
  write_file(folder.target(name), std::string_view(text_));
  file_.emplace(folder.target(name));
}

void StepLog::write(std::int64_t step, std::string_view lines) {
  if (has(step)) return;
  file_->write(lines);
  text_ += lines;
  last_step_ = step;
}

}  // namespace heed::nn
