// Exclusive use of a run directory, by an advisory lock (flock).
#pragma once

#include <filesystem>

#include "autograd/base/error.h"
#include "nn/lab/names.h"

namespace heed::lab {

/// Thrown if another process has locked the directory.
struct FolderInUse : autograd::IoError {
  using autograd::IoError::IoError;
};

/// A directory that is locked during the lifetime of the object, among the processes of this
/// machine. The lock is also released when the process ends, even by SIGKILL.
class LockedFolder {
 public:
  /// Creates the directory if it does not exist, and locks it. Throws FolderInUse if it is already
  /// locked, and IoError for other failures.
  explicit LockedFolder(const std::filesystem::path& folder);
  /// Moves the lock. The other object no longer has it.
  LockedFolder(LockedFolder&& other) noexcept;
  /// Removes the directory if this object created it and it is empty.
  ~LockedFolder();

  /// Returns the path that was given to the constructor.
  const std::filesystem::path& path() const { return path_; }
  /// Returns whether path() still is the locked directory: it was neither moved nor removed.
  bool is_present() const;
  /// Returns whether the directory is locked. Returns false if the file system does not support
  /// locks; then another process that writes into the directory is not detected.
  bool is_locked() const { return is_locked_; }

 private:
  LockedFolder() = default;
  bool try_lock();

  std::filesystem::path path_;
  int descriptor_ = -1;  // the open directory, which owns the lock
  bool is_new_ = false, is_locked_ = false;
};

}  // namespace heed::lab
