#include "nn/run/folder_lock.h"

#include <sys/file.h>

#include <cerrno>
#include <system_error>

namespace heed::nn {

namespace fs = std::filesystem;
using autograd::IoError;

FolderLock::FolderLock(const std::filesystem::path& folder)
    : directory_(std::make_shared<autograd::Directory>(folder.string())), state_(State::kHeld) {
  while (::flock(directory_->descriptor(), LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EINTR) continue;
    if (error == EWOULDBLOCK)
      state_ = State::kTaken;
    else if (error == ENOLCK || error == ENOTSUP || error == ENOSYS)
      state_ = State::kNoLocks;
    else
      fail<IoError>("cannot lock " + folder.string(), std::generic_category().message(error));
    return;
  }
}

LockedFolder::LockedFolder(const fs::path& folder) {
  std::error_code error;
  do {  // repeats if another process removes the directory at the same time
    is_new_ = !fs::exists(folder, error);
    const bool is_file = !is_new_ && !fs::is_directory(folder, error);
    if (!is_file) fs::create_directories(folder, error);
    check<IoError>(!is_file && !error, "cannot make the directory " + folder.string(),
                   is_file ? "it is a file" : error.message());
    try {
      lock_.emplace(folder);
    } catch (const IoError&) {
      if (fs::exists(folder, error)) throw;
    }
  } while (!lock_ || !lock_->directory()->is_at(folder.string()));
  check<FolderInUse>(!lock_->taken(), "cannot write into " + folder.string(),
                     "it is locked by another process; wait for this process or stop it (Ctrl-C "
                     "saves a run), or choose another directory");
}

LockedFolder::~LockedFolder() {
  std::error_code ignored;  // the directory may have files, or it was removed
  if (is_new_ && directory()->is_at(path().string())) fs::remove(path(), ignored);
}

}  // namespace heed::nn
