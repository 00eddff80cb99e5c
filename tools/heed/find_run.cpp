#include "tools/heed/find_run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>

#include "autograd/base/error.h"
#include "tools/heed/report/output.h"

namespace heed {

namespace fs = std::filesystem;
using autograd::fail;
using autograd::IoError;

namespace {

constexpr std::string_view kConfig = "config.toml", kCheckpoints = "checkpoints";
constexpr std::array<std::string_view, 8> kFiles = {
    "config.toml", "model.safetensors", "best.safetensors", "state.safetensors",
    "metrics.csv", "audit.txt",         "loss.png",         "attention.png"};

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kConfig, ignored);
}

// Whether a run got as far as its first save.
bool has_saved(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "model.safetensors", ignored) ||
         fs::exists(folder / "state.safetensors", ignored);
}

// "model.safetensors.tmp123.0": what a kill leaves of a file that was being written.
bool is_temporary(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::size_t at = name.rfind(".tmp");
  if (at == std::string::npos || name.find_first_not_of("0123456789.", at + 4) != std::string::npos)
    return false;
  const std::string target = name.substr(0, at);
  return target.ends_with(".safetensors") ||
         std::find(kFiles.begin(), kFiles.end(), target) != kFiles.end();
}

// Whether all that is in the folder are such files, also in checkpoints/.
bool holds_nothing(const fs::path& folder, std::error_code& error) {
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const bool checkpoints = entry.path().filename() == kCheckpoints && entry.is_directory();
    if (checkpoints ? !holds_nothing(entry.path(), error) : !is_temporary(entry.path()))
      return false;
  }
  return !error;
}

// When a run was last written to, or nothing if it is none or never saved.
std::optional<fs::file_time_type> last_written(const fs::path& folder) {
  std::optional<fs::file_time_type> newest;
  if (!is_run(folder) || !has_saved(folder)) return newest;
  for (const fs::path& file : {folder / kConfig, folder / "model.safetensors"}) {
    std::error_code error;
    const auto time = fs::last_write_time(file, error);
    if (!error && (!newest || time > *newest)) newest = time;
  }
  return newest;
}

void make_directories(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail<IoError>("out", "cannot make ", folder.string(), ": ", error.message());
}

}  // namespace

fs::path make_next_run(const std::string& task) {
  make_directories("runs");
  for (int n = 1;; ++n) {
    fs::path folder = fs::path("runs") / fmt::format("{}-{}", task, n);
    std::error_code error;
    if (fs::create_directory(folder, error)) return folder;  // false: it was there
    if (error) fail<IoError>("out", "cannot make ", folder.string(), ": ", error.message());
  }
}

void check_out(const fs::path& folder, bool overwrite) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (!fs::exists(status)) return;
  if (!fs::is_directory(status))
    fail<IoError>("out", folder.string(), " is a file; a run needs a folder of its own");
  if (holds_nothing(folder, error)) return;
  if (error) fail<IoError>("out", "cannot read ", folder.string(), ": ", error.message());
  if (!is_run(folder))
    usage_error("--out {} is not empty and holds no run; choose another folder", folder.string());
  if (!overwrite && !has_saved(folder))
    usage_error("--out {}: this run never saved; start it again with --overwrite", folder.string());
  if (!overwrite)
    usage_error(
        "--out {0} holds a run already; continue it with --resume {0}, or replace it with "
        "--overwrite",
        folder.string());
}

void empty_out(const fs::path& folder) {
  const auto remove = [&](const fs::path& inside, const auto& is_ours) {
    std::error_code error;
    for (fs::directory_iterator it(inside, error), end; !error && it != end; it.increment(error))
      if (const fs::path file = it->path(); is_temporary(file) || is_ours(file))
        if (!fs::remove(file, error) && error) break;
    if (error) fail<IoError>("out", "cannot empty ", inside.string(), ": ", error.message());
  };
  remove(folder, [](const fs::path& file) {
    return std::find(kFiles.begin(), kFiles.end(), file.filename().string()) != kFiles.end();
  });
  if (std::error_code ignored; fs::is_directory(folder / kCheckpoints, ignored))
    remove(folder / kCheckpoints,
           [](const fs::path& file) { return file.extension() == ".safetensors"; });
}

RunLock::RunLock(const fs::path& folder) {
  make_directories(folder);
  directory_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory_ < 0 || ::flock(directory_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(directory_);
  usage_error(
      "another heed trains into {} at this moment; wait for it or stop it (Ctrl-C there saves), or "
      "train into another folder with --out",
      folder.string());
}

RunLock::~RunLock() {
  if (directory_ >= 0) ::close(directory_);
}

fs::path find_run(const std::string& given) {
  std::error_code error;
  if (!given.empty()) {
    if (is_run(given) && has_saved(given)) return given;
    if (is_run(given))
      fail<IoError>("run", "'", given, "': this run never saved; start it again with --overwrite: ",
                    "heed train --config ", given, "/config.toml --out ", given, " --overwrite");
    if (!fs::exists(given, error)) fail<IoError>("run", "there is no run or file '", given, "'");
    fail<IoError>("run", "'", given, "' is no run: it holds no config.toml");
  }
  fs::path newest;
  std::optional<fs::file_time_type> newest_time;
  for (fs::directory_iterator it("runs", error), end; !error && it != end; it.increment(error)) {
    const auto time = last_written(it->path());
    if (!time || (newest_time && *time <= *newest_time)) continue;
    newest = it->path();
    newest_time = time;
  }
  if (!newest_time) fail<IoError>("run", "there is no run under runs/ here; heed train makes one");
  return newest;
}

}  // namespace heed
