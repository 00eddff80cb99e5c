#include "tools/heed/plan/sweep_folder.h"

#include <algorithm>
#include <system_error>

#include "autograd/base/files.h"
#include "nn/io/toml.h"
#include "nn/run/staged_folder.h"
#include "tools/heed/pictures.h"
#include "tools/heed/report/output.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSweepFile = "sweep.toml";

// Of another part of the same sweep, which begins at this moment, there may be a part of the file.
bool holds_other_files(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (!it->path().filename().string().starts_with(kSweepFile)) return true;
  return false;
}

}  // namespace

bool is_sweep(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kSweepFile, ignored);
}

SweepPlan read_plan(const fs::path& folder) {
  const std::string file = (folder / kSweepFile).string();
  return plan_sweep(nn::read_toml_text(file), file);
}

void check_sweep_folder(const fs::path& folder, const SweepPlan& plan) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return;
  if (!fs::is_directory(folder, ignored))
    usage_error("--out {} is a file; a sweep needs a folder of its own", folder.string());
  // In this order: another part may begin meanwhile, with sweep.toml first.
  if (holds_other_files(folder) && !is_sweep(folder))
    usage_error("--out {} is not empty and holds no sweep; choose another folder", folder.string());
  if (!is_sweep(folder)) return;
  const SweepPlan before = read_plan(folder);
  const bool begun = std::any_of(before.runs.begin(), before.runs.end(), [&](const auto& run) {
    return fs::exists(folder / run.name, ignored);
  });
  if (!begun) return;  // nothing was trained by what is there
  if (const std::string change = no_longer_planned(before, plan); !change.empty())
    usage_error(
        "--out {} holds another sweep: {}; only more values can be added; choose another "
        "folder",
        folder.string(), change);
}

void keep_sweep(const fs::path& folder, const std::string& text) {
  make_folder(folder);
  const fs::path file = folder / kSweepFile;
  if (is_sweep(folder) && autograd::read_file(file.string()) == text) return;
  autograd::write_file(file.string(), std::string_view(text));
}

fs::path keep_recipe(const fs::path& folder, const PlannedRun& run) {
  make_folder(folder / "recipes");
  const fs::path file = folder / "recipes" / (run.name + ".toml");
  autograd::write_file(file.string(), std::string_view(run.recipe));
  return file;
}

nn::RunFolder::State state_of(const fs::path& run) {
  if (std::error_code ignored; fs::exists(run, ignored)) nn::finish_publication(run);
  return nn::RunFolder(run).state();
}

}  // namespace heed
