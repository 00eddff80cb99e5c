#include "tools/heed/find_run.h"

#include <optional>
#include <system_error>

#include "autograd/base/error.h"
#include "autograd/base/text.h"
#include "nn/run/staged_folder.h"
#include "nn/study/over_time.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {

namespace fs = std::filesystem;
using autograd::IoError;

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.toml", ignored);
}

bool has_saved(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "model.safetensors", ignored) ||
         fs::exists(folder / "state.safetensors", ignored);
}

std::optional<fs::file_time_type> last_written(const fs::path& folder) {
  std::optional<fs::file_time_type> newest;
  if (!is_run(folder) || !has_saved(folder)) return newest;
  for (const fs::path& file : {folder / "config.toml", folder / "model.safetensors"}) {
    std::error_code error;
    const auto time = fs::last_write_time(file, error);
    if (!error && (!newest || time > *newest)) newest = time;
  }
  return newest;
}

nn::Setting run_setting(std::string& run) {
  return nn::Setting("run", run, "DIR", "run folder").shows("the newest under runs/");
}

fs::path find_run(const std::string& given) {
  std::error_code error;
  if (!given.empty()) {
    nn::finish_publication(given);
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
    try {
      nn::finish_publication(it->path());
    } catch (const IoError&) {  // of another user, or in use: as it is
    }
    const auto time = last_written(it->path());
    if (!time || (newest_time && *time <= *newest_time)) continue;
    newest = it->path();
    newest_time = time;
  }
  if (!newest_time) fail<IoError>("run", "there is no run under runs/ here; heed train makes one");
  return newest;
}

namespace {

// Which weights there are, if not these.
void check_weights(const fs::path& folder, const std::string& weights) {
  std::error_code ignored;
  if (fs::exists(folder / weights, ignored)) return;
  std::vector<std::string> others;
  for (const char* name : {"model.safetensors", "best.safetensors"})
    if (fs::exists(folder / name, ignored)) others.push_back(name);
  if (const auto checkpoints = nn::list_checkpoints(folder); !checkpoints.empty())
    others.push_back(fs::relative(checkpoints.back().file, folder).string());
  fail<IoError>("weights", folder.string(), " has no ", weights,
                others.empty() ? "; heed train --resume " + folder.string() + " writes them again"
                               : "; it has " + heed::join(others) +
                                     ", for --weights of heed eval, generate, study and verify");
}

}  // namespace

nn::LoadedRun open_run(const fs::path& folder, const std::string& weights, nn::Use use) {
  check_weights(folder, weights);
  Progress progress(false);
  progress.at_work("reads " + folder.string());
  nn::LoadedRun run = nn::load_run(folder, weights, use);
  progress.clear();
  if (!run.note.empty()) print_error("note: " + run.note);
  return run;
}

}  // namespace heed
