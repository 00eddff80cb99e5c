#include "tools/heed/train/out_folder.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "nn/run/run_folder.h"
#include "tools/heed/report/output.h"

namespace heed {

namespace fs = std::filesystem;
using autograd::fail;
using autograd::IoError;
using nn::RunFolder;

namespace {

constexpr auto& kFiles = RunFolder::kFiles;
constexpr std::string_view kNewRun = "new-run";  // the folder of a first save, as new-run.tmp12.0
constexpr std::string_view kWholeRun = "new-run.whole";  // its name from then on, until moved out
constexpr std::chrono::milliseconds kMoment(20);

[[noreturn]] void out_fails(const char* what, const fs::path& path, const std::error_code& error) {
  fail<IoError>("out", what, path.string(), ": ", error.message());
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_run_file(std::string_view name) {
  return std::find(std::begin(kFiles), std::end(kFiles), name) != std::end(kFiles);
}

// The process that writes a temporary file, FILE.tmp123.0, or nothing if a run has no such file.
std::optional<pid_t> writer_of(const fs::path& file) {
  const std::string name = file.filename().string();
  const std::size_t at = name.rfind(".tmp"), dot = name.rfind('.');
  if (at == std::string::npos || dot <= at || !is_digits(std::string_view(name).substr(dot + 1)))
    return {};
  const std::string_view target = std::string_view(name).substr(0, at);
  if (!is_run_file(target) && !RunFolder::is_checkpoint(target) && target != kNewRun) return {};
  return autograd::parse_number<pid_t>(std::string_view(name).substr(at + 4, dot - at - 4));
}

// Calls f(path) for what is in a folder, f(path) may remove it. A link is not followed.
template <class F>
void for_each_inside(const fs::path& folder, F f) {
  std::error_code error;
  if (fs::symlink_status(folder, error).type() != fs::file_type::directory) return;
  std::vector<fs::path> inside;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    inside.push_back(it->path());
  if (error) out_fails("cannot read ", folder, error);
  for (const fs::path& path : inside) f(path);
}

void remove_file(const fs::path& path) {
  std::error_code error;
  if (fs::remove(path, error); error) out_fails("cannot remove ", path, error);
}

// An unfinished first save.
void remove_new_run(const fs::path& folder) {
  for_each_inside(folder, [](const fs::path& path) {
    if (is_run_file(path.filename().string()) || writer_of(path)) remove_file(path);
  });
  std::error_code ignored;
  fs::remove(folder, ignored);
}

// Who holds the lock is the only writer: whatever is unfinished is of an earlier one.
void sweep(const fs::path& folder) {
  for_each_inside(folder, [](const fs::path& path) {
    if (!writer_of(path)) return;
    fs::is_directory(path) ? remove_new_run(path) : remove_file(path);
  });
}

// Moves a whole first save out of its folder, in the place of an earlier run. The first file of
// kFiles leaves it first: while it is there, all of these files outside are the earlier run's. So a
// kill at any moment leaves what the next call can finish.
void move_out(const fs::path& folder) {
  const fs::path whole = folder / kWholeRun;
  std::error_code ignored;
  if (fs::exists(whole / kFiles[0], ignored)) {
    for_each_inside(folder / RunFolder::kCheckpoints, [](const fs::path& path) {
      if (RunFolder::is_checkpoint(path.filename().string()) && !fs::is_directory(path))
        remove_file(path);
    });
    for (const char* name : kFiles)
      if (!fs::exists(whole / name, ignored)) remove_file(folder / name);
  }
  for (const char* name : kFiles) {
    std::error_code error;
    fs::rename(whole / name, folder / name, error);
    if (error && error != std::errc::no_such_file_or_directory)
      out_fails("cannot replace ", folder / name, error);
  }
  fs::remove(whole, ignored);
  if (fs::symlink_status(folder / RunFolder::kCheckpoints, ignored).type() ==
      fs::file_type::directory)
    fs::remove(folder / RunFolder::kCheckpoints, ignored);  // if it is empty
}

// Whether all that is in the folder are unfinished files, also in checkpoints/.
bool holds_nothing(const fs::path& folder) {
  bool nothing = true;
  for_each_inside(folder, [&](const fs::path& path) {
    const bool checkpoints = path.filename() == RunFolder::kCheckpoints && fs::is_directory(path);
    nothing = nothing && (checkpoints ? holds_nothing(path) : writer_of(path).has_value());
  });
  return nothing;
}

bool is_unsettled(const fs::path& folder) {
  std::error_code ignored;
  return fs::symlink_status(folder / kWholeRun, ignored).type() == fs::file_type::directory;
}

const fs::path& make_directories(const fs::path& folder) {
  std::error_code error;
  if (fs::create_directories(folder, error); error) out_fails("cannot make ", folder, error);
  return folder;
}

}  // namespace

void check_out(const fs::path& folder, bool overwrite) {
  settle_run(folder);
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status))
    fail<IoError>("out", folder.string(), " is a file; a run needs a folder of its own");
  if (holds_nothing(fs::canonical(folder))) return;
  const RunFolder run(folder);
  if (!run.is_run())
    usage_error("--out {} is not empty and holds no run; choose another folder", folder.string());
  if (!overwrite && !run.has_saved())
    usage_error("--out {}: this run never saved; start it again with --overwrite", folder.string());
  if (!overwrite)
    usage_error(
        "--out {0} holds a run already; continue it with --resume {0}, or replace it with "
        "--overwrite",
        folder.string());
  if (fs::is_symlink(folder / RunFolder::kCheckpoints))
    usage_error(
        "--overwrite removes nothing through the symbolic link {}; remove it, or choose "
        "another folder",
        (folder / RunFolder::kCheckpoints).string());
}

void begin_run(const fs::path& folder, const std::function<void(const fs::path&)>& save) {
  const fs::path real = fs::canonical(folder);
  const fs::path inside = real / fmt::format("{}.tmp{}.0", kNewRun, ::getpid());
  make_directories(inside);
  try {
    save(inside);
  } catch (...) {
    remove_new_run(inside);
    throw;
  }
  std::error_code error;
  if (fs::rename(inside, real / kWholeRun, error); error) out_fails("cannot move ", inside, error);
  move_out(real);
}

void settle_run(const fs::path& folder) {
  for (int tries = 1; is_unsettled(folder); ++tries) {
    try {
      const RunLock settles(folder);
    } catch (const IoError&) {
      if (tries == 100) throw;
      std::this_thread::sleep_for(kMoment);  // its writer may live, and be at it
    }
  }
}

void settle_runs(const fs::path& runs) {
  std::error_code error;
  for (fs::directory_iterator it(runs, error), end; !error && it != end; it.increment(error)) {
    try {
      settle_run(it->path());
    } catch (const IoError&) {
    }
  }
}

RunLock::RunLock(const fs::path& folder) : lock_(make_directories(folder)) {
  if (lock_.taken())
    fail<IoError>("out", "another heed works in ", folder.string(),
                  " at this moment; wait for it or stop it (Ctrl-C saves a run), or train into "
                  "another folder with --out");
  const fs::path real = fs::canonical(folder);
  if (lock_.held()) {  // else what is unfinished may be another's
    sweep(real);
    sweep(real / RunFolder::kCheckpoints);
  }
  // Without locks its writer may live, and be at it.
  for (int i = 0; i < 100 && !lock_.held() && is_unsettled(real); ++i)
    std::this_thread::sleep_for(kMoment);
  if (is_unsettled(real)) move_out(real);
}

}  // namespace heed
