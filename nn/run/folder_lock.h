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

  bool held() const { return state_ == State::kHeld; }
  /// Locked by another process.
  bool taken() const { return state_ == State::kTaken; }
  /// Whether the path still leads to the directory that was opened. Another process may have
  /// removed that one since.
  bool is_of(const std::filesystem::path& folder) const;

 private:
  enum class State { kHeld, kTaken, kNoLocks };
  int directory_;
  State state_;
};

/// Whether a FolderLock holds this directory at this moment.
bool is_taken(const std::filesystem::path& folder);

}  // namespace heed::nn
