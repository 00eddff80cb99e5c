// Where a study's files go.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/heed/folder_lock.h"

namespace heed {

/// The folder of a study that is being made. Its files are written into work(), a folder inside,
/// and move to their place when all are there: a study that was killed, or found the disk full,
/// mixes with no other, and one killed while its files move is whole when the next asks for its
/// folder.
class StudyFolder {
 public:
  /// As a run's --out, a folder that holds a study already, of any kind, is not replaced unasked,
  /// nor ever one in which another process of this machine works (UsageError); without --out it is
  /// the next free one of `usual`, `usual`-2, ... What a killed study left there is removed.
  StudyFolder(const std::string& out, const std::filesystem::path& usual, bool overwrite);
  /// Removes what is not finished, and the folder if it is new and empty.
  ~StudyFolder();
  StudyFolder(const StudyFolder&) = delete;
  StudyFolder& operator=(const StudyFolder&) = delete;

  std::filesystem::path work() const;
  /// Moves all of work() to its place, and removes the files of the study that was there. Returns
  /// the paths of these files then. IoError.
  std::vector<std::filesystem::path> finish(const std::vector<std::filesystem::path>& files);

 private:
  enum class Place { kOurs, kHoldsStudy, kBusy };
  Place take(bool overwrite);
  void clean();

  std::filesystem::path folder_;
  bool is_new_ = false;
  std::optional<FolderLock> lock_;
};

}  // namespace heed
