// A file of a run that grows while the run trains, one or more lines for some of its steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "nn/run/run_folder.h"

namespace heed::nn {

/// Appends lines that begin with the number of a step, such as "50,0,1,dW_Q,0.1", to a file of a
/// run. A line is written by one system call, so a kill can truncate only the last line.
class StepLog {
 public:
  /// Opens the file `name` of the run. Keeps its lines up to step `last`, from which the run
  /// continues, and removes all others, which a resumed run writes again. If the file does not
  /// exist, creates it. `header` is the first line, without line break; "" if there is none. Throws
  /// IoError if the file cannot be read or written.
  StepLog(const RunFolder& folder, const char* name, std::string_view header, std::int64_t last);

  /// Appends lines of a step. Does nothing if the file has lines of this step or of a later one.
  /// Throws IoError if the write fails.
  void write(std::int64_t step, std::string_view lines);
  /// Returns whether the file has lines of this step or of a later one.
  bool has(std::int64_t step) const { return last_step_ >= step; }

 private:
  std::optional<autograd::AppendFile> file_;
  std::int64_t last_step_ = -1;
};

}  // namespace heed::nn
