#include "nn/run/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "autograd/base/error.h"

namespace heed::nn {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : directory_(std::make_shared<autograd::Directory>(folder.string())), state_(State::kHeld) {
  for (int tries = 0; ::flock(directory_->descriptor(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    const int error = errno;
    if (error == ENOLCK || error == ENOTSUP || error == ENOSYS) {
      state_ = State::kNoLocks;
      return;
    }
    if (error != EWOULDBLOCK && error != EINTR)
      fail<autograd::IoError>("cannot lock " + folder.string(),
                              std::generic_category().message(error));
    state_ = State::kTaken;
    if (tries == 5) return;
    // A process that calls is_taken() holds the lock for less time than this wait.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  state_ = State::kHeld;
}

bool is_taken(const std::filesystem::path& folder) {
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return false;
  const bool taken = ::flock(directory, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(directory);
  return taken;
}

}  // namespace heed::nn
