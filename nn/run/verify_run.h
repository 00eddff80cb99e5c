// Verification of the files of a run: checksums, and copies compared with the state.
#pragma once

#include <string>
#include <vector>

#include "nn/run/run_folder.h"

namespace heed::nn {

/// How verify_run() found a file.
struct FileCheck {
  std::string name;  ///< name of the file in the directory
  /// "its checksum", RunFolder::kState, or "nothing": nothing proves it whole
  std::string verified_by;
  std::string problem = {};  ///< "" if none, otherwise the reason why the file is damaged
};
/// Verifies the checksums of RunFolder::kState and, if `checkpoints` is set, of each checkpoint,
/// and that each copy has the contents of the state. A text of a run that is not finished may be
/// longer; nothing proves it whole if it is older than the state.
std::vector<FileCheck> verify_run(const RunFolder& run, bool checkpoints = true);

}  // namespace heed::nn
