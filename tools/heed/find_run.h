// The run directory that a command reads, and the directory of a new run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "nn/lab/run/run_folder.h"

namespace heed {

/// Returns the setting `run` of a command. Its value is stored in the variable `run`, and the
/// command passes it to find_run().
lab::Setting run_setting(std::string& run);

/// Returns the directory of the run `given`. An empty `given` means the run under runs/ that was
/// saved last. Throws IoError if `given` is not a run directory, or if runs/ contains no run.
std::filesystem::path find_run(const std::string& given);

/// Returns the path of a file for lab::load_weights(): `given` if it is a file, or the weights of
/// the last save if `given` is a run directory. Throws the errors of find_run() if it is neither.
std::string find_weights(const std::string& given);

/// Calls RunFolder::open(). If the opened run has a note about the weights file, prints the note to
/// stderr. Throws IoError if the directory does not contain the file `weights`.
lab::LoadedRun open_run(const std::filesystem::path& folder, const std::string& weights,
                        lab::Use use);

/// Prints TaskInfo::note to stderr, if there is one.
void print_note(const lab::Task& task);

/// Throws UsageError that names `option`, such as "--out", unless `path` ends in .safetensors and
/// is outside of all run directories, so that the new file cannot replace a file of a run.
void check_weights_out(const std::string& option, const std::string& path);

/// Locks `out` for a new run. `out` must be absent, or empty except for files that a killed run
/// left before its first save. With `overwrite`, it may also be a run directory. Throws UsageError
/// for other directories, FolderInUse if another process has locked `out`, and IoError if `out` is
/// a file.
lab::LockedFolder open_out(const std::filesystem::path& out, bool overwrite);

}  // namespace heed
