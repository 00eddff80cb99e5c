// The folder that heed train writes: who may, what was there before, what a kill left in it.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "nn/run/folder_lock.h"

namespace heed {

/// UsageError unless `folder` can take a new run: absent, empty but for what a kill left of
/// unfinished files, or, with `overwrite`, a run. IoError if it is a file.
void check_out(const std::filesystem::path& folder, bool overwrite);

/// Puts a new run into the folder: `save(inside)` writes its first save into a folder inside, and
/// only when that is whole does it take the place of an earlier run, whose files are removed: those
/// that heed train writes, nothing else, and nothing through a symbolic link. A kill leaves the one
/// run or the other, or what settle_run() makes the new one. IoError.
void begin_run(const std::filesystem::path& folder,
               const std::function<void(const std::filesystem::path& inside)>& save);

/// Ends what a killed begin_run() has begun to move: before anyone reads the folder. IoError.
void settle_run(const std::filesystem::path& folder);

/// The same for every run under `runs`. Runs of another user and those in use stay as they are.
void settle_runs(const std::filesystem::path& runs);

/// While it lives no other heed trains into this folder, which it makes if need be; its end, be it
/// by kill -9, frees the folder. IoError if another one has it, or it cannot be made. Unfinished
/// files of killed processes are gone then, and the run is settled. Where the file system has no
/// flock it guards nothing.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& folder);

 private:
  nn::FolderLock lock_;
};

}  // namespace heed
