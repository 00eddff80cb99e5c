// A directory with the files of one result, such as a study, and a manifest of these files.
//
// The manifest, heed-files.txt, has a line for the kind of result, a line for each file, and the
// line "complete" when all files are written:
//
//   heed study 1
//   report.html
//   complete
//
// A name is written into the manifest before its file is written. So a result without the last line
// is incomplete, and a later result of this kind replaces it.
#pragma once

#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "nn/run/folder_lock.h"

namespace heed::nn {

/// Writes one result into a directory. The directory is locked during the lifetime of the object.
class ResultFolder {
 public:
  static constexpr const char* kManifest = "heed-files.txt";  ///< name of the manifest

  /// Creates the directory if it does not exist, locks it, and reads the manifest. `kind` is one
  /// word for messages and the manifest, such as "study". Throws FolderInUse if the directory is in
  /// use, ValueError if it has a result of another kind or an invalid manifest, and IoError for
  /// other failures.
  ResultFolder(const std::filesystem::path& folder, std::string kind);
  /// Removes the files that this object wrote, unless complete() was called or the directory had
  /// files of an earlier result.
  ~ResultFolder();
  ResultFolder(const ResultFolder&) = delete;

  /// Returns whether the directory contains a result. An incomplete one counts only if the file
  /// system does not support locks, because another process may then be writing it.
  bool holds_result() const { return complete_ || (has_manifest_ && !lock_.is_locked()); }
  /// Returns whether the directory contains files, but no result, not even an incomplete one.
  bool is_foreign() const;
  /// Throws IoError if the directory is not writable, or if a file of the old result cannot be
  /// removed (nn::check_replaceable). Changes nothing. The first list() also calls it.
  void check_replaceable() const;

  /// Writes names into the manifest, before the caller writes these files. The first call marks the
  /// old result as incomplete. May be called from any thread. Throws ValueError unless the names
  /// are plain file names, and IoError if the manifest cannot be written, or if a file exists and
  /// is not one of the old result; then nothing has changed.
  void list(const std::vector<std::string>& names);
  /// Returns the path of a file, to write it. It is relative to the open directory, so a directory
  /// that is moved still receives its files.
  autograd::PathAt target(const std::string& name) const { return {lock_.directory().get(), name}; }
  /// Writes `name` into the manifest, unless list() has written it, and returns the path of the
  /// file.
  autograd::PathAt file(const std::string& name);
  /// Removes those files of the old result that the new one does not have, and writes the complete
  /// manifest. Throws IoError if a file cannot be removed or written.
  void complete();

 private:
  void read_manifest();
  std::string manifest(const std::set<std::string>& names) const;

  std::filesystem::path folder_;
  std::string kind_;
  LockedFolder lock_;
  bool has_manifest_ = false, complete_ = false;
  std::set<std::string> old_;  // files of the old result
  std::mutex mutex_;           // protects the members below
  std::set<std::string> new_;
  bool begun_ = false, completed_ = false;
};

}  // namespace heed::nn
