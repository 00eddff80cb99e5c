// Publishes a result that consists of several files atomically: after a kill at any moment, the
// directory contains either the old result or the new one.
//
// The process locks DIR and writes the new files into DIR/.staging. Renaming DIR/.staging to
// DIR/.publish commits them. Then the files of the earlier result are removed, and the new files
// are renamed to their final paths. The journal in DIR/.publish lists these operations. If they are
// interrupted, the next process that locks DIR repeats them. All files are inside DIR. Therefore
// DIR may be a mount point, the current directory or a symbolic link, and its parent need not be
// writable.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "nn/run/folder_lock.h"

namespace heed::nn {

/// Describes the files of one kind of result. All other files in the directory belong to the user
/// and are not changed.
struct ResultFiles {
  /// Every result has at least one of these files. If none of them exists, the directory contains
  /// no result to replace.
  std::vector<std::string> marks;
  /// Returns whether a result may contain a file of this name, such as "loss.png" or "npy/q.npy".
  std::function<bool(const std::string& name)> contains;
  std::string subfolder = "";  ///< the only subdirectory of a result, such as "npy"; "" if none
};

/// Thrown if another process has locked the directory, or if the directory may be in use and the
/// file system does not support locks.
struct FolderInUse : autograd::IoError {
  using autograd::IoError::IoError;
};

/// Writes one result into a directory. The directory is locked during the lifetime of the object.
class StagedFolder {
 public:
  /// Creates the directory if it does not exist, locks it, and cleans up after a killed process:
  /// finishes a committed publication, and removes files that were not committed and temporary
  /// files. Throws FolderInUse if the directory is in use, and IoError for other failures.
  StagedFolder(const std::filesystem::path& folder, ResultFiles files);
  /// Removes files that were not published. Removes the directory as well if this object created it
  /// and it is empty.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;

  /// Returns the path of the directory, which may have changed (Directory::path).
  std::filesystem::path folder() const { return directory()->path(); }
  /// Returns the open directory of the result.
  const std::shared_ptr<const autograd::Directory>& directory() const { return lock_->directory(); }
  /// Returns whether the directory is locked. Returns false if the file system does not support
  /// locks; then another process that writes into the directory is not detected.
  bool is_locked() const { return lock_->held(); }
  /// Returns whether the directory contains a published result (ResultFiles::marks).
  bool holds_result() const;
  /// Returns the directory for the new files, which must be written with write_file(). The first
  /// call creates it. Throws IoError if this fails, and ValueError if the subfolder is a symbolic
  /// link, because files are never removed through links.
  std::filesystem::path staging();
  /// Replaces the result in the directory, if there is one, by the files in staging(). `staged`
  /// lists some of these files; publish() returns their final paths. If it throws IoError, either
  /// nothing has changed, or the new result is committed and the next process that locks the
  /// directory finishes the publication. If the directory was moved, the result is published in it;
  /// if it was removed, throws IoError.
  std::vector<std::filesystem::path> publish(const std::vector<std::filesystem::path>& staged = {});

 private:
  std::string journal(const std::filesystem::path& folder) const;
  void check_not_removed() const;

  ResultFiles files_;
  bool is_new_ = false, is_staged_ = false;
  std::optional<FolderLock> lock_;
};

/// Removes the temporary files of write_file() that belong to these files. The caller must hold the
/// lock that all processes hold while they write such files. Throws IoError if a file cannot be
/// removed.
void remove_temporaries(const std::filesystem::path& folder, const ResultFiles& files);

/// Finishes a publication that was interrupted after its commit. Waits up to 2 s for a publication
/// in progress. Must be called before a directory is read. Throws FolderInUse if another process
/// still publishes after 2 s, and IoError if finishing fails.
void finish_publication(const std::filesystem::path& folder);

}  // namespace heed::nn
