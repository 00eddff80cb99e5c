#include "nn/run/own_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "autograd/base/error.h"

namespace heed::nn {

namespace fs = std::filesystem;
using autograd::Directory;
using autograd::IoError;

namespace {

// Returns whether chattr has made a file immutable or append-only.
bool is_locked_by_attribute(int directory, const char* name) {
  struct statx file {};
  return ::statx(directory, name, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &file) == 0 &&
         (file.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) != 0;
}

// Returns the errno with which the removal of a file would fail, or 0.
int removal_error(int directory, const std::string& name, unsigned owner) {
  const std::string parent = (fs::path(".") / name).parent_path().string();
  struct stat inside {};
  if (::fstatat(directory, parent.c_str(), &inside, 0) != 0) return errno;
  if (::faccessat(directory, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0) return errno;
  const uid_t user = ::geteuid();
  if ((inside.st_mode & S_ISVTX) != 0 && user != 0 && user != inside.st_uid && user != owner)
    return EPERM;
  for (const std::string& path : {parent, name})
    if (is_locked_by_attribute(directory, path.c_str())) return EPERM;
  return 0;
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns "loss.png" for "loss.png.tmp123.0", a temporary file of write_file(); "" for other names.
std::string target_of_temporary(const std::string& name) {
  const std::size_t at = name.rfind(".tmp"), dot = name.rfind('.');
  if (at == std::string::npos || dot <= at || !is_digits(std::string_view(name).substr(dot + 1)) ||
      !is_digits(std::string_view(name).substr(at + 4, dot - at - 4)))
    return "";
  return name.substr(0, at);
}

}  // namespace

long owner_of(const Directory& directory, const std::string& name) {
  struct stat file {};
  const int found = ::fstatat(directory.descriptor(), name.c_str(), &file, AT_SYMLINK_NOFOLLOW);
  return found == 0 && S_ISREG(file.st_mode) ? long(file.st_uid) : -1;
}

bool is_removable(const Directory& directory, const std::string& name, unsigned owner) {
  if (owner_of(directory, name) != long(owner)) return false;
  const int error = removal_error(directory.descriptor(), name, owner);
  check<IoError>(error == 0, "cannot replace " + directory.path() + "/" + name,
                 std::generic_category().message(error));
  return true;
}

void remove_temporaries(const Directory& directory,
                        const std::function<bool(const std::string& name)>& contains) {
  std::vector<std::string> stale;
  std::error_code error;
  for (fs::directory_iterator it(directory.path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string(), target = target_of_temporary(name);
    if (!target.empty() && contains(target) && owner_of(directory, name) >= 0)
      stale.push_back(name);
  }
  for (const std::string& name : stale)
    if (!error && !autograd::remove_file({&directory, name}))
      error = std::error_code(errno, std::generic_category());
  check<IoError>(!error, "cannot write into " + directory.path(), error.message());
}

}  // namespace heed::nn
