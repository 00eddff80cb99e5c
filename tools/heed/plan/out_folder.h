// The directory of a new run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "nn/run/staged_folder.h"

namespace heed {

/// The names of the files that heed train writes.
nn::ResultFiles run_files();

/// Opens `out` for a new run: a directory that is absent, empty or, with `overwrite`, holds a run.
/// UsageError for others; FolderInUse; IoError if it is a file. Its staging() exists.
std::unique_ptr<nn::StagedFolder> open_out(const std::filesystem::path& out, bool overwrite);

/// Opens the first runs/<task>-N, N = 1, 2, ..., that does not exist. IoError.
std::unique_ptr<nn::StagedFolder> open_next_run(const std::string& task);

}  // namespace heed
