// Whose folder it is at this moment.
#pragma once

#include <filesystem>

namespace heed {

/// Marks a folder as this process' own while it lives; its end, be it by kill -9, frees the folder.
/// Where the file system has no flock nobody has it: neither held() nor taken().
class FolderLock {
 public:
  /// Waits a tenth of a second at most for who only looks. IoError if the folder cannot be opened.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;

  bool held() const { return state_ == State::kHeld; }
  /// Another process has it.
  bool taken() const { return state_ == State::kTaken; }

 private:
  enum class State { kHeld, kTaken, kNoLocks };
  int directory_;
  State state_;
};

/// Whether a heed works in this folder at this moment: of another process.
bool is_taken(const std::filesystem::path& folder);

}  // namespace heed
