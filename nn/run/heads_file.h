// Writing of heads.csv, which has numbers of each attention head at each evaluation of a run. The
// file grows while the run trains.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "nn/layers/sites.h"
#include "nn/run/run_folder.h"

namespace heed::nn {

/// A line of heads.csv after the column of steps. The index of the head fills two columns.
struct HeadsRow : HeadIndex {
  std::string_view quantity;  ///< name of the quantity
  double value;               ///< NaN is written as an empty field
};

/// Appends to the heads.csv of a run while it trains.
class HeadsLog {
 public:
  /// Creates the file, or removes its lines of steps after `last`, such as those after the save
  /// from which a run resumes. Also removes a last line that a kill has truncated. Replaces the
  /// file atomically. Throws IoError if it cannot be read or written.
  HeadsLog(const RunFolder& folder, std::int64_t last);
  /// Writes the rows of an evaluation after `step` at once, so that a kill can truncate only the
  /// last line. Writes nothing if the file already has lines of this step or of a later one. Throws
  /// IoError if the write fails.
  void append(std::int64_t step, const std::vector<HeadsRow>& rows);

 private:
  std::optional<autograd::AppendFile> file_;
  std::int64_t step_ = -1;  // the last step in the file; -1: none
};

}  // namespace heed::nn
