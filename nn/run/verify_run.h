// Verification of the files of a run: checksums, and copies compared with the state.
#pragma once

#include <string>
#include <vector>

#include "nn/run/run_folder.h"

namespace heed::nn {

/// Result of verify_run() for one file.
struct FileCheck {
  std::string name;  ///< name of the file in the directory
  /// "its checksum", RunFolder::kState, or "nothing" if damage cannot be detected; "" if damaged
  std::string verified_by;
  std::string problem = {};  ///< "" if none, otherwise the reason why the file is damaged
};
/// Verifies the checksums of RunFolder::kState and, if `checkpoints` is set, of each checkpoint,
/// and that each copy has the contents of the state. If the run is not finished, metrics.csv,
/// heads.csv and samples.txt may be longer than in the state. Such a longer file that is older than
/// the state is verified by "nothing".
std::vector<FileCheck> verify_run(const RunFolder& run, bool checkpoints = true);

}  // namespace heed::nn
