// Advisory lock on a directory (flock).
#pragma once

#include <filesystem>

namespace heed::nn {

/// Exclusive advisory lock on a directory among the processes of this machine. The destructor or
/// the end of the process releases the lock, even if the process is killed by SIGKILL. If the file
/// system does not support flock, held() and taken() are both false.
class FolderLock {
 public:
  /// Tries to lock the directory. Retries for up to 0.1 s, because is_taken() may hold the lock
  /// briefly. Throws IoError if the directory cannot be opened.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// Returns whether this object holds the lock.
  bool held() const { return state_ == State::kHeld; }
  /// Returns whether another process held the lock when this object was constructed.
  bool taken() const { return state_ == State::kTaken; }
  /// Returns whether the path still refers to the directory that this object opened. Returns false
  /// if another process has removed or replaced the directory.
  bool is_of(const std::filesystem::path& folder) const;

 private:
  enum class State { kHeld, kTaken, kNoLocks };
  int directory_;
  State state_;
};

/// Returns whether a FolderLock of any process holds the lock of this directory now. Returns false
/// if the directory cannot be opened.
bool is_taken(const std::filesystem::path& folder);

}  // namespace heed::nn
