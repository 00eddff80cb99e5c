// A file of a run that grows while the run trains. It has one or more lines for some of the steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "nn/run/run_folder.h"

namespace heed::nn {

/// Appends lines that begin with the number of a step, such as "50,0,1,dW_Q,0.1", to a file of a
/// run and to Trainer::logs, which each save of the run contains.
class StepLog {
 public:
  /// Writes the file `name` of the run: the header, then the lines in trainer.logs[name] up to step
  /// `last`. Removes later lines from trainer.logs[name], too, because a longer run would not have
  /// them. `header` is the first line, without line break; "" if there is none. `trainer` must
  /// outlive the object. Throws IoError if the file cannot be written.
  StepLog(const RunFolder& folder, Trainer& trainer, const char* name, std::string_view header,
          std::int64_t last);

  /// Appends lines of a step. Does nothing if the file has lines of this step or of a later one.
  /// Throws IoError if the write fails.
  void write(std::int64_t step, std::string_view lines);
  /// Returns whether the file has lines of this step or of a later one.
  bool has(std::int64_t step) const { return last_step_ >= step; }

 private:
  std::optional<autograd::AppendFile> file_;
  std::string& text_;  // in Trainer::logs
  std::int64_t last_step_ = -1;
};

}  // namespace heed::nn
