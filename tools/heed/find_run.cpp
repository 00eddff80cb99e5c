#include "tools/heed/find_run.h"

#include <algorithm>
#include <array>
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

constexpr std::string_view kConfig = "config.toml";
constexpr std::array kFiles = {"config.toml",       "model.safetensors", "best.safetensors",
                               "state.safetensors", "metrics.csv",       "loss.png",
                               "attention.png"};

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
    const fs::path folder = fs::path("runs") / fmt::format("{}-{}", task, n);
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
  if (fs::is_empty(folder, error) && !error) return;
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

void claim_out(const fs::path& folder) {
  make_directories(folder);
  std::error_code error;
  for (const char* file : kFiles) {
    fs::remove(folder / file, error);
    if (error)
      fail<IoError>("out", "cannot remove ", (folder / file).string(), ": ", error.message());
  }
  if (!fs::is_directory(folder / "checkpoints", error)) return;
  for (const auto& entry : fs::directory_iterator(folder / "checkpoints", error))
    if (entry.path().extension() == ".safetensors") fs::remove(entry.path(), error);
  if (error)
    fail<IoError>("out", "cannot empty ", (folder / "checkpoints").string(), ": ", error.message());
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
