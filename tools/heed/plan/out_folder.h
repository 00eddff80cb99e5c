// The directory of a new run.
#pragma once

#include <filesystem>
#include <memory>

#include "nn/run/run_folder.h"

namespace heed {

/// Opens `out` for a new run: a directory that is absent, empty or, with `overwrite`, holds a run.
/// UsageError for others; FolderInUse; IoError if it is a file. Its staging() exists.
std::unique_ptr<nn::StagedFolder> open_out(const std::filesystem::path& out, bool overwrite);

}  // namespace heed
