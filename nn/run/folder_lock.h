// Advisory lock on a directory (flock).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "autograd/base/error.h"
#include "autograd/base/files.h"

namespace heed::nn {

/// Exclusive advisory lock on a directory among the processes of this machine. The lock is released
/// when this object and all copies of directory() are destroyed, or when the process ends, even by
/// SIGKILL. If the file system does not support flock, held() and taken() are both false.
class FolderLock {
 public:
  /// Tries to lock the directory. Throws IoError if the directory cannot be opened, or if locking
  /// fails although the file system supports it.
  explicit FolderLock(const std::filesystem::path& folder);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Returns whether this object holds the lock.
  bool held() const { return state_ == State::kHeld; }
  /// Returns whether the lock was already held, by any process, when this object was constructed.
  bool taken() const { return state_ == State::kTaken; }
  /// Returns the open directory, which owns the lock.
  const std::shared_ptr<const autograd::Directory>& directory() const { return directory_; }

 private:
  enum class State { kHeld, kTaken, kNoLocks };
  std::shared_ptr<const autograd::Directory> directory_;
  State state_;
};

/// Thrown if another process has locked the directory.
struct FolderInUse : autograd::IoError {
  using autograd::IoError::IoError;
};

/// A directory that is locked during the lifetime of the object.
class LockedFolder {
 public:
  /// Creates the directory if it does not exist, and locks it. Throws FolderInUse if another
  /// process has locked it, and IoError for other failures.
  explicit LockedFolder(const std::filesystem::path& folder);
  /// Removes the directory if this object created it and it is empty.
  ~LockedFolder();
  LockedFolder(const LockedFolder&) = delete;

  /// Returns the path of the directory, which may have changed (Directory::path).
  std::filesystem::path path() const { return directory()->path(); }
  /// Returns the open directory.
  const std::shared_ptr<const autograd::Directory>& directory() const { return lock_->directory(); }
  /// Returns whether the directory is locked. Returns false if the file system does not support
  /// locks; then another process that writes into the directory is not detected.
  bool is_locked() const { return lock_->held(); }

 private:
  bool is_new_ = false;
  std::optional<FolderLock> lock_;
};

}  // namespace heed::nn
