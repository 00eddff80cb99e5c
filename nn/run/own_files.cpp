#include "nn/run/own_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
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

// Returns the errno with which the system would refuse to create or remove a file, or 0.
int error_of(int directory, const std::string& name) {
  const std::string parent = (fs::path(".") / name).parent_path().string();
  if (::faccessat(directory, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0) return errno;
  for (const std::string& path : {parent, name})
    if (is_locked_by_attribute(directory, path.c_str())) return EPERM;
  return 0;
}

bool is_own(const struct stat& file) { return S_ISREG(file.st_mode) && file.st_uid == ::geteuid(); }

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::string target_of_temporary(const std::string& name) {
  const std::size_t at = name.rfind(".tmp"), dot = name.rfind('.');
  if (at == std::string::npos || dot <= at || !is_digits(std::string_view(name).substr(dot + 1)) ||
      !is_digits(std::string_view(name).substr(at + 4, dot - at - 4)))
    return "";
  return name.substr(0, at);
}

void check_replaceable(const autograd::PathAt& path) {
  const int directory = path.directory ? path.directory->descriptor() : AT_FDCWD;
  struct stat file {};
  const bool exists = ::fstatat(directory, path.path.c_str(), &file, AT_SYMLINK_NOFOLLOW) == 0;
  const std::string cannot = (exists ? "cannot replace " : "cannot write ") + path.text();
  check<IoError>(
      !exists || is_own(file), cannot,
      S_ISDIR(file.st_mode) ? "it is a directory; move it" : "heed did not write it; move it");
  const int error = error_of(directory, path.path);
  check<IoError>(error == 0, cannot, std::generic_category().message(error));
}

void remove_temporaries(const Directory& directory,
                        const std::function<bool(const std::string& name)>& contains) {
  std::vector<std::string> stale;
  std::error_code error;
  for (fs::directory_iterator it(directory.path(), error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string(), target = target_of_temporary(name);
    struct stat file {};
    if (!target.empty() && contains(target) && ::lstat(it->path().c_str(), &file) == 0 &&
        is_own(file))
      stale.push_back(name);
  }
  for (const std::string& name : stale)
    if (!error && !autograd::remove_file({&directory, name}))
      error = std::error_code(errno, std::generic_category());
  check<IoError>(!error, "cannot write into " + directory.path(), error.message());
}

}  // namespace heed::nn
