// Whose folder it is at this moment.
#pragma once

#include <filesystem>

namespace heed {

/// Marks a folder as this object's own, among the processes of this machine; its end, be it by kill
/// -9, frees the folder. Where the file system has no flock nobody has it: neither held() nor
/// taken().
class FolderLock {
 public:
  /// Waits a tenth of a second at most for who only looks. IoError if the folder cannot be opened.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;

  bool held() const { return state_ == State::kHeld; }
  /// Another has it.
  bool taken() const { return state_ == State::kTaken; }
  /// Whether the path still leads to the folder that was opened: it may have been removed since.
  bool is_of(const std::filesystem::path& folder) const;

 private:
  enum class State { kHeld, kTaken, kNoLocks };
  int directory_;
  State state_;
};

/// Whether a FolderLock holds this folder at this moment.
bool is_taken(const std::filesystem::path& folder);

}  // namespace heed
