#include "nn/run/staged_folder.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include "autograd/base/files.h"
#include "nn/io/limits.h"

namespace heed::nn {

namespace fs = std::filesystem;
using autograd::IoError;

namespace {

constexpr const char *kStaging = ".staging", *kPublish = ".publish";
// A file in .staging and in .publish, which proves that heed created the directory. The file is
// empty until just before the commit. Then it contains a line for each file: "- NAME" for a file of
// the earlier result that must be removed, and "+ NAME" for a file of the new result.
constexpr const char* kJournal = "heed-journal";
// Name of .publish in runs of heed 0.1, up to commit 1a44110.
constexpr const char* kOlderPublish = "new-run.whole";

// Returns the beginning of an error message about writing into the directory.
std::string cannot_write(const fs::path& folder) { return "cannot write into " + folder.string(); }

// Calls f and turns errors of the file system into IoError.
template <class F>
void change(const fs::path& folder, F f) {
  try {
    f();
  } catch (const fs::filesystem_error& e) {
    fail<IoError>(cannot_write(folder), e.path1().string(), ": ", e.code().message());
  }
}

// Returns whether the path is a directory and not a symbolic link to one.
bool is_real_directory(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(fs::symlink_status(path, ignored));
}

// Returns whether heed created the directory, which is named .staging or .publish. A user may have
// created a directory with this name.
bool is_ours(const fs::path& folder) {
  std::error_code ignored;
  return is_real_directory(folder) &&
         (fs::exists(folder / kJournal, ignored) || fs::is_empty(folder, ignored));
}

// Returns the names of the files in a directory and its subfolder, such as "loss.png" and
// "npy/q.npy".
std::vector<std::string> file_names(const fs::path& folder, const std::string& subfolder) {
  std::vector<std::string> names;
  const auto add = [&](const fs::path& inside) {
    for (const auto& entry : fs::directory_iterator(inside))
      if (!is_real_directory(entry.path()))
        names.push_back(entry.path().lexically_relative(folder).generic_string());
  };
  add(folder);
  if (!subfolder.empty() && is_real_directory(folder / subfolder)) add(folder / subfolder);
  std::sort(names.begin(), names.end());
  return names;
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

// Returns the final path of a file listed in a journal. Throws IoError unless it is inside the
// directory, because the journal may be damaged.
fs::path final_path(const fs::path& folder, const std::string& name) {
  const fs::path path = name;
  const bool inside = !name.empty() && path.is_relative() &&
                      std::count(name.begin(), name.end(), '/') <= 1 &&
                      std::find(path.begin(), path.end(), "..") == path.end();
  check<IoError>(inside, cannot_write(folder), (folder / kPublish / kJournal).string(),
                 " is damaged: '", name, "' is not a file inside the directory");
  if (path.has_parent_path()) {
    const fs::path parent = folder / path.parent_path();
    check<IoError>(!fs::is_symlink(fs::symlink_status(parent)), cannot_write(folder),
                   parent.string(),
                   " is a symbolic link, and heed does not replace files through links; remove it");
  }
  return folder / path;
}

void remove_if_empty(const fs::path& folder) {
  std::error_code ignored;
  if (is_real_directory(folder)) fs::remove(folder, ignored);
}

// Removes .staging. The journal must be removed last, because it proves that heed created the
// directory.
void remove_staging(const fs::path& staging) {
  if (!is_ours(staging)) return;
  std::vector<fs::path> inside;
  for (const auto& entry : fs::directory_iterator(staging))
    if (entry.path().filename() != kJournal) inside.push_back(entry.path());
  for (const fs::path& path : inside) fs::remove_all(path);
  fs::remove(staging / kJournal);
  fs::remove(staging);
}

// Performs the operations of the journal. They may be repeated after a kill at any step. If the
// file system does not support locks, two processes may perform them at the same time.
void replay_journal(const fs::path& folder) {
  const fs::path from = folder / kPublish;
  std::istringstream lines(autograd::read_file((from / kJournal).string(), kMaxJournalBytes));
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(std::min<std::size_t>(2, line.size()));
    const fs::path target = final_path(folder, name);
    if (line[0] == '-') {
      if (!is_real_directory(target)) fs::remove(target);
      if (name.find('/') != std::string::npos) remove_if_empty(target.parent_path());
      continue;
    }
    fs::create_directories(target.parent_path());
    std::error_code error;
    const fs::file_status old = fs::status(target, error);
    if (fs::is_regular_file(old)) fs::permissions(from / name, old.permissions(), error);
    fs::rename(from / name, target, error);
    // If the file is missing, it was renamed before.
    if (error && error != std::errc::no_such_file_or_directory)
      throw fs::filesystem_error("rename", target, error);
  }
}

// Finishes a publication that is committed, if there is one.
void finish(const fs::path& folder) {
  const fs::path from = folder / kPublish;
  if (!is_ours(from)) return;
  change(folder, [&] {
    // If the journal is missing, a process was killed after it had removed the journal.
    if (fs::exists(from / kJournal)) replay_journal(folder);
    std::vector<fs::path> subfolders;
    for (const auto& entry : fs::directory_iterator(from))
      if (is_real_directory(entry.path())) subfolders.push_back(entry.path().filename());
    for (const fs::path& subfolder : subfolders) {
      if (is_real_directory(folder / subfolder))
        autograd::sync_directory((folder / subfolder).string());
      fs::remove(from / subfolder);
    }
    autograd::sync_directory(folder.string());
    fs::remove(from / kJournal);
    fs::remove(from);
  });
}

// Throws IoError if the directory contains an interrupted publication of heed 0.1.
void check_not_older(const fs::path& folder) {
  check<IoError>(!is_real_directory(folder / kOlderPublish), (folder / kOlderPublish).string(),
                 "contains files of a run that heed 0.1 did not finish moving into ",
                 folder.string(), "; move them there and remove the empty directory");
}

}  // namespace

StagedFolder::StagedFolder(const fs::path& folder, ResultFiles files) : files_(std::move(files)) {
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
  } while (!lock_ || !directory()->is_at(folder.string()));
  check<FolderInUse>(!lock_->taken(), cannot_write(folder),
                     "it is locked by another process; wait for this process or stop it (Ctrl-C "
                     "saves a run), or choose another directory");
  check_not_older(folder);
  finish(folder);
  const fs::path staging = folder / kStaging;
  check<FolderInUse>(lock_->held() || !is_ours(staging), cannot_write(folder), staging.string(),
                     " may be in use by another process, because this file system does not support "
                     "locks; remove it if no such process exists, or choose another directory");
  change(folder, [&] {
    remove_staging(staging);
    if (!lock_->held()) return;  // temporary files may then belong to another process
    remove_temporaries(folder, files_);
  });
}

StagedFolder::~StagedFolder() {
  if (directory()->is_removed()) return;  // another directory may have its path
  try {
    if (is_staged_) remove_staging(folder() / kStaging);
  } catch (const fs::filesystem_error&) {
    // The next process that locks the directory removes .staging.
  }
  if (is_new_) remove_if_empty(folder());
}

bool StagedFolder::holds_result() const {
  std::error_code ignored;
  const fs::path folder = this->folder();
  return std::any_of(files_.marks.begin(), files_.marks.end(),
                     [&](const std::string& name) { return fs::exists(folder / name, ignored); });
}

fs::path StagedFolder::staging() {
  const fs::path folder = this->folder(), staging = folder / kStaging,
                 subfolder = folder / files_.subfolder;
  if (is_staged_) return staging;
  check_not_removed();
  check<autograd::ValueError>(
      files_.subfolder.empty() || !fs::is_symlink(fs::symlink_status(subfolder)),
      cannot_write(folder), subfolder.string(),
      " is a symbolic link, and heed does not remove files through links; remove it, or choose "
      "another directory");
  for (const fs::path& taken : {staging, folder / kPublish})
    check<IoError>(!fs::exists(fs::symlink_status(taken)), cannot_write(folder), "heed needs ",
                   taken.string(),
                   ", which exists and was not created by heed; move it, or choose another "
                   "directory");
  change(folder, [&] { is_staged_ = fs::create_directory(staging); });
  // One system call creates the file. A temporary file that a kill leaves in .staging would make it
  // look like a directory of the user.
  const bool created = std::ofstream(staging / kJournal).good();
  const int error = errno;
  check<IoError>(created, cannot_write(folder), (staging / kJournal).string(), ": ",
                 std::generic_category().message(error));
  return staging;
}

// Returns the text of the journal. Throws ValueError if staging() contains a file that does not
// belong to this kind of result, and IoError if a directory has the name of a new file.
std::string StagedFolder::journal(const fs::path& folder) const {
  std::vector<std::string> staged = file_names(folder / kStaging, files_.subfolder);
  std::erase(staged, kJournal);
  std::string text;
  if (holds_result())
    for (const std::string& name : file_names(folder, files_.subfolder))
      if (files_.contains(name) && !std::binary_search(staged.begin(), staged.end(), name))
        text += "- " + name + "\n";
  for (const std::string& name : staged) {
    check<autograd::ValueError>(files_.contains(name), cannot_write(folder), "'", name,
                                "' is not a file of this kind of result");
    check<IoError>(!is_real_directory(folder / name), "cannot replace " + (folder / name).string(),
                   "it is a directory");
    text += "+ " + name + "\n";
  }
  return text;
}

std::vector<fs::path> StagedFolder::publish(const std::vector<fs::path>& staged) {
  check_not_removed();
  const fs::path folder = this->folder();
  std::vector<fs::path> paths;
  for (const fs::path& file : staged) {  // the directory may have moved since `file` was written
    const bool inside = file.parent_path().filename() == files_.subfolder;
    paths.push_back(folder / (inside ? files_.subfolder : "") / file.filename());
  }
  change(folder, [&] {
    const std::string text = journal(folder);
    autograd::write_file(folder / kStaging / kJournal, std::string_view(text));
    fs::rename(folder / kStaging, folder / kPublish);
    is_staged_ = false;
    autograd::sync_directory(folder.string());
  });
  finish(folder);
  return paths;
}

void StagedFolder::check_not_removed() const {
  check<IoError>(!directory()->is_removed(), cannot_write(folder()),
                 "the directory was removed after heed had locked it");
}

void remove_temporaries(const fs::path& folder, const ResultFiles& files) {
  change(folder, [&] {
    for (const std::string& name : file_names(folder, files.subfolder))
      if (files.contains(target_of_temporary(name))) fs::remove(folder / name);
  });
}

void finish_publication(const fs::path& folder) {
  check_not_older(folder);
  // An empty .publish may belong to the user, so only a process that writes into the directory
  // removes it.
  const auto is_committed = [&] {
    std::error_code ignored;
    return is_real_directory(folder / kPublish) &&
           fs::exists(folder / kPublish / kJournal, ignored);
  };
  for (int tries = 0; is_committed(); ++tries) {
    const FolderLock lock(folder);
    if (!lock.taken()) return finish(folder);
    check<FolderInUse>(tries < 20, "cannot read " + folder.string(),
                       "it is locked by another process, which has not finished writing its "
                       "result; wait for this process or stop it");
  }
}

}  // namespace heed::nn
