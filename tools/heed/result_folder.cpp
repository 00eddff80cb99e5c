#include "tools/heed/result_folder.h"

#include <fmt/format.h>

#include <system_error>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "tools/heed/report/output.h"

namespace heed {

namespace fs = std::filesystem;
using autograd::IoError;
using lab::LockedFolder;

namespace {

bool is_taken(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

fs::path numbered(const fs::path& path, int n) { return path.string() + fmt::format("-{}", n); }

// Creates and locks the first of `preset`, `preset`-2, ... that no other process has taken.
LockedFolder make_next(const fs::path& preset) {
  for (int n = 1;; ++n) {
    const fs::path path = n == 1 ? preset : numbered(preset, n);
    if (is_taken(path)) continue;
    try {
      LockedFolder folder(path);
      if (fs::is_empty(path)) return folder;
    } catch (const lab::FolderInUse&) {  // another process has taken it; try the next
    }
  }
}

}  // namespace

void check_out(const std::string& out) {
  if (out.empty() || !is_taken(out)) return;
  const bool is_folder = fs::is_directory(out);
  if (is_folder && fs::is_empty(out)) return;
  fs::path path = fs::path(out + "/").lexically_normal().parent_path();
  if (path == "." || path.filename() == "..") path = fs::canonical(path);
  int n = 2;
  while (is_taken(numbered(path, n))) ++n;
  usage_error("--out {} {}; choose a new directory, such as {}", out,
              is_folder ? "is not empty" : "is not a directory", numbered(path, n).string());
}

ResultFolder::ResultFolder(const std::string& out, const fs::path& preset)
    : locked_(out.empty() ? make_next(preset) : (check_out(out), LockedFolder(out))) {
  check_out(out);  // again, because another process may have used it before it was locked
  autograd::write_file((locked_.path() / kUnfinished).string(), std::string_view());
}

ResultFolder::~ResultFolder() {
  if (completed_ || !locked_.is_present()) return;
  std::error_code ignored;
  for (const fs::path& file : files_) fs::remove(file, ignored);
  fs::remove(locked_.path() / kUnfinished, ignored);
}

fs::path ResultFolder::file(const std::string& name) {
  const std::lock_guard guard(mutex_);
  return files_.emplace_back(locked_.path() / name);
}

void ResultFolder::complete() {
  const std::string path = locked_.path().string();
  check<IoError>(locked_.is_present(), path,
                 "was moved or removed while the result was written; repeat the command");
  std::error_code error;
  fs::remove(locked_.path() / kUnfinished, error);
  check<IoError>(!error, "cannot write into " + path, error.message());
  completed_ = true;
}

}  // namespace heed
