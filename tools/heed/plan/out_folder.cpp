#include "tools/heed/plan/out_folder.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

constexpr const char* kCheckpoints = "checkpoints";
const std::vector<std::string> kFiles = {
    "config.toml",   "model.safetensors", "best.safetensors", "state.safetensors", "metrics.csv",
    "metrics.jsonl", "audit.txt",         "loss.png",         "attention.png",     "causality.png"};

// "000200.safetensors"
bool is_checkpoint(std::string_view name) {
  constexpr std::string_view kWeights = ".safetensors";
  return name.ends_with(kWeights) && name.size() > kWeights.size() &&
         name.find_first_not_of("0123456789") == name.size() - kWeights.size();
}

bool is_run_file(const std::string& name) {
  const fs::path path = name;
  return path.has_parent_path()
             ? path.parent_path() == kCheckpoints && is_checkpoint(path.filename().string())
             : std::find(kFiles.begin(), kFiles.end(), name) != kFiles.end();
}

// Whether there is nothing but perhaps an empty checkpoints/.
bool is_vacant(const fs::path& folder) {
  return std::all_of(fs::directory_iterator(folder), fs::directory_iterator(),
                     [](const fs::directory_entry& entry) {
                       return entry.path().filename() == kCheckpoints && entry.is_directory() &&
                              fs::is_empty(entry.path());
                     });
}

}  // namespace

nn::ResultFiles run_files() { return {{kFiles[0]}, is_run_file, kCheckpoints}; }

std::unique_ptr<nn::StagedFolder> open_out(const fs::path& out, bool overwrite) {
  auto folder = std::make_unique<nn::StagedFolder>(out, run_files());
  if (!is_vacant(out)) {
    if (!is_run(out))
      usage_error("--out {} is not empty and holds no run; choose another folder", out.string());
    if (!overwrite && !has_saved(out))
      usage_error("--out {}: this run never saved; start it again with --overwrite", out.string());
    if (!overwrite)
      usage_error(
          "--out {0} holds a run already; continue it with --resume {0}, or replace it with "
          "--overwrite",
          out.string());
  }
  folder->staging();
  return folder;
}

std::unique_ptr<nn::StagedFolder> open_next_run(const std::string& task) {
  for (int n = 1;; ++n) {
    const fs::path path = fs::path("runs") / fmt::format("{}-{}", task, n);
    if (fs::exists(fs::symlink_status(path))) continue;
    try {
      auto folder = std::make_unique<nn::StagedFolder>(path, run_files());
      if (!folder->holds_result()) return folder;
    } catch (const nn::FolderInUse&) {  // another process was first
    }
  }
}

}  // namespace heed
