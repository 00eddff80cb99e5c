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
/// mixes with no other. (Killed in the moment of the renames, it leaves a part, which --overwrite
/// replaces.)
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
  /// Moves these files of work() to their place, and removes those of the study that was there.
  /// Returns their paths. IoError.
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
