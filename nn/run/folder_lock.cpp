#include "nn/run/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "autograd/base/error.h"

namespace heed::nn {
namespace {

int open_directory(const std::filesystem::path& folder) {
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) : directory_(open_directory(folder)) {
  if (directory_ < 0)
    heed::fail<autograd::IoError>("cannot open " + folder.string(),
                                  std::error_code(errno, std::generic_category()).message());
  for (int tries = 0; ::flock(directory_, LOCK_EX | LOCK_NB) != 0; ++tries) {
    state_ = errno == EWOULDBLOCK ? State::kTaken : State::kNoLocks;
    if (state_ == State::kNoLocks || tries == 5) return;
    // A process that calls is_taken() holds the lock for less time than this wait.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  state_ = State::kHeld;
}

FolderLock::~FolderLock() { ::close(directory_); }

bool FolderLock::is_of(const std::filesystem::path& folder) const {
  struct stat opened {
  }, now{};
  return ::fstat(directory_, &opened) == 0 && ::stat(folder.c_str(), &now) == 0 &&
         opened.st_dev == now.st_dev && opened.st_ino == now.st_ino;
}

bool is_taken(const std::filesystem::path& folder) {
  const int directory = open_directory(folder);
  if (directory < 0) return false;
  const bool taken = ::flock(directory, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(directory);
  return taken;
}

}  // namespace heed::nn
