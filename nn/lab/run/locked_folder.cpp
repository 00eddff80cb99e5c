#include "nn/lab/run/locked_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace heed::lab {

namespace fs = std::filesystem;
using autograd::IoError;

LockedFolder::LockedFolder(const fs::path& folder) : LockedFolder() {
  path_ = folder;
  while (!try_lock()) continue;
}

LockedFolder::LockedFolder(LockedFolder&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      is_new_(std::exchange(other.is_new_, false)),
      is_locked_(other.is_locked_) {}

LockedFolder::~LockedFolder() {
  std::error_code ignored;  // the directory may have files
  if (is_new_ && is_present()) fs::remove(path_, ignored);
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool LockedFolder::is_present() const {
  struct stat locked {
  }, now{};
  return ::fstat(descriptor_, &locked) == 0 && ::stat(path_.c_str(), &now) == 0 &&
         locked.st_dev == now.st_dev && locked.st_ino == now.st_ino;
}

// Creates and locks the directory. Returns false if this must be repeated, because another process
// removed the directory at the same time, or because of a signal.
bool LockedFolder::try_lock() {
  const std::string name = path_.string();
  std::error_code failed;
  const bool is_new = !fs::exists(path_, failed);
  const bool is_file = !is_new && !fs::is_directory(path_, failed);
  if (!is_file) fs::create_directories(path_, failed);
  check<IoError>(!is_file && !failed, "cannot make the directory " + name,
                 is_file ? "it is a file" : failed.message());
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = descriptor_ < 0 ? errno : 0;
  if (error == ENOENT || error == EINTR) return false;
  check<IoError>(error == 0, "cannot open " + name, std::generic_category().message(error));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) error = errno;
  if (error == EINTR || !is_present()) return false;
  check<FolderInUse>(error != EWOULDBLOCK, "cannot write into " + name,
                     "it is locked by another process; wait for this process or stop it (Ctrl-C "
                     "saves a run), or choose another directory");
  is_locked_ = error == 0;
  check<IoError>(is_locked_ || error == ENOLCK || error == ENOTSUP || error == ENOSYS,
                 "cannot lock " + name, std::generic_category().message(error));
  is_new_ = is_new;
  return true;
}

}  // namespace heed::lab
