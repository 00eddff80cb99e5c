// Publishes a result of several files as a whole: a kill at any moment leaves the old result or the
// new one.
//
// Under the lock of DIR the new files are written into DIR/.staging. The rename of DIR/.staging to
// DIR/.publish commits them. Then the files of the earlier result are removed and the new ones are
// renamed to their places, as the journal in DIR/.publish lists them. If that is interrupted, the
// next process that locks DIR repeats it. Everything happens inside DIR, so DIR may be a mount
// point, the current directory, a symbolic link, or lie in a parent that is not writable.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "nn/run/folder_lock.h"

namespace heed::nn {

/// The files of one kind of result. All others in the directory belong to the user and stay.
struct ResultFiles {
  /// Each result has at least one of these. A directory without them has no result to replace.
  std::vector<std::string> marks;
  /// Returns whether a result may have a file of this name, as "loss.png" or "npy/q.npy".
  std::function<bool(const std::string& name)> contains;
  std::string subfolder = "";  ///< the only one that a result has, as "npy", or ""
};

/// The directory is locked by another process, or may be in use and cannot be locked.
struct FolderInUse : autograd::IoError {
  using autograd::IoError::IoError;
};

/// One result that this process writes, alone in its directory as long as this object lives.
class StagedFolder {
 public:
  /// Makes the directory if it does not exist, locks it, and clears what a killed process left: a
  /// committed result takes its place, one that was not committed and temporary files are removed.
  /// FolderInUse; IoError.
  StagedFolder(const std::filesystem::path& folder, ResultFiles files);
  /// Removes what was not published, and the directory if this object made it and it is empty.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  bool holds_result() const;
  /// Directory for the new files, to be written with write_file(). The first call makes it:
  /// IoError; ValueError if the subfolder is a symbolic link, through which nothing is removed.
  std::filesystem::path staging();
  /// Replaces the result in the directory, if any, by the files in staging(). Returns the places
  /// that `staged`, some of them, have then. IoError: either nothing has changed or, if the new
  /// result was committed, the next process that locks the directory repeats the rest.
  std::vector<std::filesystem::path> publish(const std::vector<std::filesystem::path>& staged = {});

 private:
  std::string journal() const;

  std::filesystem::path folder_;
  ResultFiles files_;
  bool is_new_ = false, is_staged_ = false;
  std::optional<FolderLock> lock_;
};

/// Finishes a publication that was killed after its commit, and waits up to 2 s for one in
/// progress. Call it before reading a directory. FolderInUse; IoError.
void finish_publication(const std::filesystem::path& folder);

}  // namespace heed::nn
