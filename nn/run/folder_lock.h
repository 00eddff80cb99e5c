// Advisory lock on a directory (flock).
#pragma once

#include <filesystem>

namespace heed::nn {

/// Locks a directory among the processes of this machine, until its destructor or the end of the
/// process, kill -9 included. If the file system has no flock, held() and taken() are both false.
class FolderLock {
 public:
  /// Retries for up to 0.1 s, because is_taken() may hold the lock briefly. IoError if the
  /// directory cannot be opened.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  bool held() const { return state_ == State::kHeld; }
  /// Whether the directory is locked by another process.
  bool taken() const { return state_ == State::kTaken; }
  /// Returns whether the path still leads to the locked directory, which another process may have
  /// removed since.
  bool is_of(const std::filesystem::path& folder) const;

 private:
  enum class State { kHeld, kTaken, kNoLocks };
  int directory_;
  State state_;
};

/// Returns whether a FolderLock holds this directory now.
bool is_taken(const std::filesystem::path& folder);

}  // namespace heed::nn
