#include "nn/run/result_folder.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "nn/io/limits.h"
#include "nn/run/own_files.h"

namespace heed::nn {

namespace fs = std::filesystem;
using namespace autograd;

namespace {

constexpr const char *kComplete = "complete", *kVersion = "1";

bool is_plain(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name != kComplete &&
         name != ResultFolder::kManifest && name.find_first_of("/\n") == name.npos;
}

}  // namespace

ResultFolder::ResultFolder(const fs::path& folder, std::string kind)
    : folder_(folder), kind_(std::move(kind)), lock_(folder) {
  std::error_code ignored;
  has_manifest_ =
      fs::symlink_status(folder_ / kManifest, ignored).type() != fs::file_type::not_found;
  if (has_manifest_) read_manifest();
}

ResultFolder::~ResultFolder() {
  if (!begun_ || completed_ || !old_.empty()) return;
  for (const std::string& name : new_) remove_file(target(name));
  remove_file(target(kManifest));
}

void ResultFolder::read_manifest() {
  const std::string path = (folder_ / kManifest).string();
  check<ValueError>(fs::is_regular_file(fs::symlink_status(path)), path,
                    "is not a regular file; remove it, or choose another directory");
  std::vector<std::string> lines = heed::split(read_file(path, kMaxManifestBytes), '\n');
  lines.pop_back();  // "", or a name that a kill has truncated; its file was not written
  check<ValueError>(!lines.empty() && lines[0].starts_with("heed "), path,
                    "was not written by heed; move it, or choose another directory");
  check<ValueError>(lines[0] == "heed " + kind_ + " " + kVersion, path, "contains '", lines[0],
                    "', not a ", kind_, " of this version; choose another directory");
  complete_ = lines.back() == kComplete;
  for (std::size_t i = 1; i + (complete_ ? 1 : 0) < lines.size(); ++i) {
    check<ValueError>(is_plain(lines[i]), path, "contains '", lines[i],
                      "', which is not the name of a file; remove this damaged list of files, or "
                      "choose another directory");
    old_.insert(lines[i]);
  }
}

bool ResultFolder::is_foreign() const {
  if (has_manifest_) return false;
  const fs::directory_iterator files(folder_);
  return std::any_of(begin(files), end(files), [](const fs::directory_entry& file) {
    // A kill may have left a temporary file of the first manifest.
    return target_of_temporary(file.path().filename().string()) != kManifest;
  });
}

void ResultFolder::check_replaceable() const {
  nn::check_replaceable(target(kManifest));
  for (const std::string& name : old_) nn::check_replaceable(target(name));
}

std::string ResultFolder::manifest(const std::set<std::string>& names) const {
  std::string text = "heed " + kind_ + " " + kVersion + "\n";
  for (const std::string& name : names) text += name + "\n";
  return text;
}

void ResultFolder::list(const std::vector<std::string>& names) {
  const std::lock_guard guard(mutex_);
  if (!begun_) check_replaceable();
  std::set<std::string> more;
  for (const std::string& name : names) {
    check<ValueError>(is_plain(name), "result", "'", name, "' is not the name of a file");
    if (new_.contains(name)) continue;
    const std::string path = target(name).text();
    std::error_code error;
    const fs::file_type type = fs::symlink_status(path, error).type();
    check<IoError>(old_.contains(name) || type == fs::file_type::not_found,
                   "cannot replace " + path,
                   type == fs::file_type::directory ? "it is a directory; move it"
                                                    : "heed did not write it; move it");
    more.insert(name);
  }
  new_.insert(more.begin(), more.end());
  const PathAt manifest_file = target(kManifest);
  if (!begun_) {
    if (lock_.is_locked())
      remove_temporaries(*lock_.directory(), [&](const std::string& name) {
        return name == kManifest || old_.contains(name);
      });
    more.insert(old_.begin(), old_.end());
    write_file(manifest_file, std::string_view(manifest(more)));
    begun_ = true;
  } else {
    const AppendFile file(manifest_file);
    for (const std::string& name : more)
      if (!old_.contains(name)) file.write(name + "\n");
  }
}

PathAt ResultFolder::file(const std::string& name) {
  list({name});
  return target(name);
}

void ResultFolder::complete() {
  list({});
  for (const std::string& name : old_) {
    if (new_.contains(name) || remove_file(target(name))) continue;
    const int error = errno;
    check<IoError>(error == ENOENT, "cannot remove " + target(name).text(),
                   std::generic_category().message(error));
  }
  write_file(target(kManifest), std::string_view(manifest(new_) + kComplete + "\n"));
  completed_ = true;
}

}  // namespace heed::nn
