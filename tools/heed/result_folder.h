// The new or empty directory of a result, such as a study.
#pragma once

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "nn/lab/run/locked_folder.h"

namespace heed {

/// Throws UsageError unless `out`, the value of --out, is empty text, does not exist, or is an
/// empty directory. The message has the next free name.
void check_out(const std::string& out);

/// The directory of one result, locked. It has no other files, so no file is replaced. Until
/// complete() is called, it has the file kUnfinished, which remains if the process is killed.
class ResultFolder {
 public:
  static constexpr const char* kUnfinished = "unfinished";  ///< marks an incomplete result

  /// Creates the directory `out`, or uses it if it is empty. If `out` is empty text, creates the
  /// first of `preset`, `preset`-2, ... that does not exist. Throws the errors of check_out() and
  /// LockedFolder, and IoError.
  ResultFolder(const std::string& out, const std::filesystem::path& preset);
  /// Unless complete() was called, removes the files of the result, and the directory if this
  /// object created it. Removes nothing from a directory that was moved.
  ~ResultFolder();
  ResultFolder(const ResultFolder&) = delete;

  /// Returns the path of a file of the result, to write it. May be called from any thread.
  std::filesystem::path file(const std::string& name);
  /// Marks the result as complete. Throws IoError, also if the directory was moved or removed.
  void complete();

 private:
  lab::LockedFolder locked_;
  bool completed_ = false;
  std::mutex mutex_;  // protects files_
  std::vector<std::filesystem::path> files_;
};

}  // namespace heed
