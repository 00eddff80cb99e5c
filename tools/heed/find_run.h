// The run that a command is about, and the directory of a new one.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "nn/run/run_folder.h"

namespace heed {

/// The setting RUN, for find_run().
nn::Setting run_setting(std::string& run);

/// The run that RUN on a command line means: `given`, or, if that is empty, the run under runs/
/// that was saved last. IoError if `given` is not a run or never saved, or there is none to choose.
std::filesystem::path find_run(const std::string& given);

/// RunFolder::open, and on stderr the note that it makes of the file.
nn::LoadedRun open_run(const std::filesystem::path& folder, const std::string& weights,
                       nn::Use use);

/// Opens `out` for a new run: a directory that is absent, empty or, with `overwrite`, holds a run.
/// UsageError for others; FolderInUse; IoError if it is a file. Its staging() exists.
std::unique_ptr<nn::StagedFolder> open_out(const std::filesystem::path& out, bool overwrite);

}  // namespace heed
