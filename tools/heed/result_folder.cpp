#include "tools/heed/result_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "autograd/base/error.h"
#include "tools/heed/report/output.h"

namespace heed {

namespace fs = std::filesystem;
using autograd::IoError;

namespace {

bool is_taken(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

fs::path numbered(const fs::path& path, int n) { return path.string() + fmt::format("-{}", n); }

}  // namespace

void check_out(const std::string& out) {
  if (out.empty() || !is_taken(out)) return;
  const bool is_folder = fs::is_directory(out);
  if (is_folder && fs::is_empty(out)) return;
  const fs::path path = out.substr(0, out.find_last_not_of('/') + 1);
  int n = 2;
  while (is_taken(numbered(path, n))) ++n;
  usage_error("--out {} {}; choose a new directory, such as {}", out,
              is_folder ? "is not empty" : "is not a directory", numbered(path, n).string());
}

ResultFolder::ResultFolder(const std::string& out, const fs::path& preset)
    : path_(out.empty() ? preset : fs::path(out)) {
  check_out(out);
  std::error_code error;
  if (path_.has_parent_path()) fs::create_directories(path_.parent_path(), error);
  for (int n = 2; is_new_ && ::mkdir(path_.c_str(), 0777) != 0; ++n) {
    heed::check<IoError>(errno == EEXIST, "cannot make the directory " + path_.string(),
                         std::generic_category().message(errno));
    if (out.empty())
      path_ = numbered(preset, n);
    else
      is_new_ = false;
  }
  const std::string marker = (path_ / kUnfinished).string();
  const int file = ::open(marker.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  const int reason = errno;
  if (file < 0 && is_new_) fs::remove(path_, error);
  heed::check<IoError>(file >= 0, "cannot write " + marker,
                       std::generic_category().message(reason));
  ::close(file);
}

ResultFolder::~ResultFolder() {
  if (completed_) return;
  std::error_code ignored;
  for (const fs::path& file : files_) fs::remove(file, ignored);
  fs::remove(path_ / kUnfinished, ignored);
  if (is_new_) fs::remove(path_, ignored);
}

fs::path ResultFolder::file(const std::string& name) {
  const std::lock_guard guard(mutex_);
  return files_.emplace_back(path_ / name);
}

void ResultFolder::complete() {
  fs::remove(path_ / kUnfinished);
  completed_ = true;
}

}  // namespace heed
