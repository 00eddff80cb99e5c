#include "nn/run/staged_folder.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "autograd/base/files.h"

namespace heed::nn {

namespace fs = std::filesystem;
using autograd::IoError;

namespace {

constexpr const char *kStaging = ".staging", *kPublish = ".publish";
// A file in both, which shows that heed made the directory. It is empty until the commit and then
// has a line for each file: "- NAME" of the earlier result, to be removed, "+ NAME" of the new one.
constexpr const char* kJournal = "heed-journal";
// Name of .publish in runs of heed 0.1, up to commit 1a44110.
constexpr const char* kOlderPublish = "new-run.whole";

// Calls f. Its errors of the file system become IoErrors.
template <class F>
void change(const fs::path& folder, F f) {
  try {
    f();
  } catch (const fs::filesystem_error& e) {
    fail<IoError>("out", "cannot write into ", folder.string(), ": ", e.path1().string(), ": ",
                  e.code().message());
  }
}

// Not through a symbolic link.
bool is_directory_itself(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(fs::symlink_status(path, ignored));
}

// Returns whether this .staging or .publish is heed's: a user may have a directory of that name.
bool is_ours(const fs::path& folder) {
  std::error_code ignored;
  return is_directory_itself(folder) &&
         (fs::exists(folder / kJournal, ignored) || fs::is_empty(folder, ignored));
}

// The files in a directory and its subfolder, as "loss.png" and "npy/q.npy".
std::vector<std::string> file_names(const fs::path& folder, const std::string& subfolder) {
  std::vector<std::string> names;
  const auto add = [&](const fs::path& inside) {
    for (const auto& entry : fs::directory_iterator(inside))
      if (!is_directory_itself(entry.path()))
        names.push_back(entry.path().lexically_relative(folder).generic_string());
  };
  add(folder);
  if (!subfolder.empty() && is_directory_itself(folder / subfolder)) add(folder / subfolder);
  std::sort(names.begin(), names.end());
  return names;
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "loss.png" of write_file's "loss.png.tmp123.0"; "" of other names.
std::string target_of_temporary(const std::string& name) {
  const std::size_t at = name.rfind(".tmp"), dot = name.rfind('.');
  if (at == std::string::npos || dot <= at || !is_digits(std::string_view(name).substr(dot + 1)) ||
      !is_digits(std::string_view(name).substr(at + 4, dot - at - 4)))
    return "";
  return name.substr(0, at);
}

// The place of a name in a journal. It lies in the directory, whoever wrote the journal.
fs::path place_of(const fs::path& folder, const std::string& name) {
  const fs::path path = name;
  const bool inside = !name.empty() && path.is_relative() &&
                      std::count(name.begin(), name.end(), '/') <= 1 &&
                      std::find(path.begin(), path.end(), "..") == path.end();
  check<IoError>(inside, "out", (folder / kPublish / kJournal).string(), " is damaged: '", name,
                 "' is not a file of the directory");
  if (path.has_parent_path()) {
    const fs::path parent = folder / path.parent_path();
    check<IoError>(!fs::is_symlink(fs::symlink_status(parent)), "out", parent.string(),
                   " is a symbolic link, through which heed replaces nothing; remove it");
  }
  return folder / path;
}

void remove_if_empty(const fs::path& folder) {
  std::error_code ignored;
  if (is_directory_itself(folder)) fs::remove(folder, ignored);
}

// Removes .staging. The journal goes last: without it the rest would not be heed's.
void remove_staging(const fs::path& staging) {
  if (!is_ours(staging)) return;
  std::vector<fs::path> inside;
  for (const auto& entry : fs::directory_iterator(staging))
    if (entry.path().filename() != kJournal) inside.push_back(entry.path());
  for (const fs::path& path : inside) fs::remove_all(path);
  fs::remove(staging / kJournal);
  fs::remove(staging);
}

// Does what the journal says. It may be repeated after a kill at any step, and two processes may do
// it at the same time (where there are no locks).
void replay_journal(const fs::path& folder) {
  const fs::path from = folder / kPublish;
  constexpr std::uint64_t kLargest = 100'000'000;  // bytes; a line for each checkpoint
  std::istringstream lines(autograd::read_file((from / kJournal).string(), kLargest));
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(std::min<std::size_t>(2, line.size()));
    const fs::path place = place_of(folder, name);
    if (line[0] == '-') {
      if (!is_directory_itself(place)) fs::remove(place);
      if (name.find('/') != std::string::npos) remove_if_empty(place.parent_path());
      continue;
    }
    fs::create_directories(place.parent_path());
    std::error_code error;
    fs::rename(from / name, place, error);
    if (error && error != std::errc::no_such_file_or_directory)  // it is in its place already
      throw fs::filesystem_error("rename", place, error);
  }
}

// Finishes a publication after its commit.
void finish(const fs::path& folder) {
  const fs::path from = folder / kPublish;
  if (!is_ours(from)) return;
  change(folder, [&] {
    if (fs::exists(from / kJournal)) replay_journal(folder);  // else a kill came after it
    std::vector<fs::path> subfolders;
    for (const auto& entry : fs::directory_iterator(from))
      if (is_directory_itself(entry.path())) subfolders.push_back(entry.path().filename());
    for (const fs::path& subfolder : subfolders) {
      if (is_directory_itself(folder / subfolder))
        autograd::sync_directory((folder / subfolder).string());
      fs::remove(from / subfolder);
    }
    autograd::sync_directory(folder.string());
    fs::remove(from / kJournal);
    fs::remove(from);
  });
}

void check_not_older(const fs::path& folder) {
  check<IoError>(!is_directory_itself(folder / kOlderPublish), "out",
                 (folder / kOlderPublish).string(),
                 " holds files of a run that an older heed was about to move into ",
                 folder.string(), " when it was killed; move them there and remove it");
}

}  // namespace

StagedFolder::StagedFolder(const fs::path& folder, ResultFiles files)
    : folder_(folder), files_(std::move(files)) {
  std::error_code error;
  do {  // until it is not one that the process that made it removes just now
    is_new_ = !fs::exists(folder_, error);
    const bool is_file = !is_new_ && !fs::is_directory(folder_, error);
    if (!is_file) fs::create_directories(folder_, error);
    check<IoError>(!is_file && !error, "out", "cannot make the folder ", folder_.string(), ": ",
                   is_file ? "it is a file" : error.message());
    try {
      lock_.emplace(folder_);
    } catch (const IoError&) {
      if (fs::exists(folder_, error)) throw;
    }
  } while (!lock_ || !lock_->is_of(folder_));
  check<FolderInUse>(!lock_->taken(), "out", folder_.string(),
                     " is locked by another process; wait for it or stop it (Ctrl-C saves a run), "
                     "or choose another folder");
  check_not_older(folder_);
  finish(folder_);
  const fs::path staging = folder_ / kStaging;
  check<FolderInUse>(lock_->held() || !is_ours(staging), "out", staging.string(),
                     " may be in use by another process, as this file system has no locks; "
                     "remove it if there is none, or choose another folder");
  change(folder_, [&] {
    remove_staging(staging);
    if (!lock_->held()) return;  // else temporary files may be another process's
    for (const std::string& name : file_names(folder_, files_.subfolder))
      if (files_.contains(target_of_temporary(name))) fs::remove(folder_ / name);
  });
}

StagedFolder::~StagedFolder() {
  try {
    if (is_staged_) remove_staging(folder_ / kStaging);
  } catch (const fs::filesystem_error&) {  // the next process that locks the directory removes it
  }
  if (is_new_) remove_if_empty(folder_);
}

bool StagedFolder::holds_result() const {
  std::error_code ignored;
  return std::any_of(files_.marks.begin(), files_.marks.end(),
                     [&](const std::string& name) { return fs::exists(folder_ / name, ignored); });
}

fs::path StagedFolder::staging() {
  const fs::path staging = folder_ / kStaging, subfolder = folder_ / files_.subfolder;
  if (is_staged_) return staging;
  check<autograd::ValueError>(
      files_.subfolder.empty() || !fs::is_symlink(fs::symlink_status(subfolder)), "out",
      "heed removes nothing through the symbolic link ", subfolder.string(),
      "; remove it, or choose another folder");
  for (const fs::path& taken : {staging, folder_ / kPublish})
    check<IoError>(!fs::exists(fs::symlink_status(taken)), "out", taken.string(),
                   " is in the way, and heed did not make it; move it, or choose another folder");
  change(folder_, [&] {
    is_staged_ = fs::create_directory(staging);
    std::ofstream(staging / kJournal);
  });
  return staging;
}

// Also checks that nothing stands in the way of what it lists.
std::string StagedFolder::journal() const {
  std::vector<std::string> staged = file_names(folder_ / kStaging, files_.subfolder);
  std::erase(staged, kJournal);
  std::string text;
  if (holds_result())
    for (const std::string& name : file_names(folder_, files_.subfolder))
      if (files_.contains(name) && !std::binary_search(staged.begin(), staged.end(), name))
        text += "- " + name + "\n";
  for (const std::string& name : staged) {
    check<autograd::ValueError>(files_.contains(name), "out", "'", name,
                                "' is not a file of this kind of result");
    check<IoError>(!is_directory_itself(folder_ / name), "out", "cannot replace ",
                   (folder_ / name).string(), ": it is a directory");
    text += "+ " + name + "\n";
  }
  return text;
}

std::vector<fs::path> StagedFolder::publish(const std::vector<fs::path>& staged) {
  std::vector<fs::path> places;
  for (const fs::path& file : staged)
    places.push_back(folder_ / file.lexically_relative(folder_ / kStaging));
  change(folder_, [&] {
    const std::string text = journal();
    autograd::write_file((folder_ / kStaging / kJournal).string(), std::string_view(text));
    fs::rename(folder_ / kStaging, folder_ / kPublish);
    is_staged_ = false;
    autograd::sync_directory(folder_.string());
  });
  finish(folder_);
  return places;
}

void finish_publication(const fs::path& folder) {
  check_not_older(folder);
  // An empty .publish may be the user's: only a process that writes into the directory removes it.
  const auto is_begun = [&] {
    std::error_code ignored;
    return is_directory_itself(folder / kPublish) &&
           fs::exists(folder / kPublish / kJournal, ignored);
  };
  for (int tries = 0; is_begun(); ++tries) {
    const FolderLock lock(folder);
    if (!lock.taken()) return finish(folder);
    check<FolderInUse>(tries < 20, "out", folder.string(),
                       " is locked by another process, which has not finished to write into it; "
                       "wait for it or stop it");
  }
}

}  // namespace heed::nn
