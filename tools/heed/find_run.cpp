#include "tools/heed/find_run.h"

#include <algorithm>
#include <system_error>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {

namespace fs = std::filesystem;
using autograd::IoError;
using lab::RunFolder;

lab::Setting run_setting(std::string& run) {
  return lab::Setting("run", run, "DIR", "run directory").shows("the newest under runs/");
}

namespace {

// Throws IoError if the run does not contain the file `weights`. The message lists the weights
// files that the run contains.
void check_weights(const RunFolder& run, const std::string& weights) {
  if (weights == RunFolder::kState || autograd::is_there(run.file(weights))) return;
  const std::vector<std::string> others = run.weights();
  fail<IoError>("weights", run.text(), " has no ", weights,
                others.empty() ? "; leave out --weights"
                               : "; it has " + heed::join(others) + ", for --weights");
}

// Returns whether the directory contains nothing but checkpoints/, temporary files of a killed run
// and perhaps the file `accepted`.
bool has_only(const fs::path& folder, const std::string& accepted) {
  return std::all_of(
      fs::recursive_directory_iterator(folder), fs::recursive_directory_iterator(),
      [&](const fs::directory_entry& entry) {
        const std::string name = entry.path().lexically_relative(folder).string();
        return (name == RunFolder::kCheckpoints && fs::is_directory(entry.symlink_status())) ||
               RunFolder::is_temporary(name) || name == accepted;
      });
}

// Returns whether the directory contains the weights of an import that was killed before it wrote
// the configuration file.
bool is_killed_import(const fs::path& folder) {
  return has_only(folder, RunFolder::kModel) &&
         nn::load_metadata((folder / RunFolder::kModel).string()).contains(lab::kConfigKey);
}

}  // namespace

fs::path find_run(const std::string& given) {
  if (given.empty()) {
    const auto newest = RunFolder::newest();
    if (!newest) fail<IoError>("run", "found no run under runs/; heed train creates one");
    return newest->path();
  }
  const RunFolder run(given);
  if (!autograd::is_there(given))
    fail<IoError>("run", "found no run or file '", given, "'; heed info DIR lists the runs in DIR");
  if (std::error_code ignored; !fs::is_directory(given, ignored))
    fail<IoError>("run", "'", given, "' is not a directory; a run is a directory");
  if (!run.is_run())
    fail<IoError>("run", "'", given, "' is not a run directory (no ", RunFolder::kState,
                  ", and no ", RunFolder::kConfig, " with ", RunFolder::kModel, ")");
  return given;
}

std::string find_weights(const std::string& given) {
  if (autograd::is_file(given)) return given;
  const RunFolder run(find_run(given));
  return run.file(run.has_state() ? RunFolder::kState : RunFolder::kModel).string();
}

lab::LoadedRun open_run(const fs::path& folder, const std::string& weights, lab::Use use) {
  const RunFolder run_folder(folder);
  check_weights(run_folder, weights);
  Progress progress(false);
  progress.at_work("Reading " + folder.string());
  lab::LoadedRun run = run_folder.open(weights, use);
  progress.clear();
  if (!run.note.empty()) print_error("note: " + run.note);
  return run;
}

void print_note(const lab::Task& task) {
  if (const std::string& note = task.info().note; !note.empty()) print_error("note: " + note);
}

void check_weights_out(const std::string& option, const std::string& path) {
  if (!path.ends_with(".safetensors"))
    usage_error("{} needs a file whose name ends in .safetensors, got '{}'", option, path);
  fs::path folder = fs::weakly_canonical(fs::absolute(path));
  while (folder.has_relative_path()) {
    folder = folder.parent_path();
    if (RunFolder(folder).is_run())
      usage_error("{} {} is inside the run directory {}; choose another directory", option, path,
                  folder.string());
  }
}

lab::LockedFolder open_out(const fs::path& out, bool overwrite) {
  lab::LockedFolder folder(out);
  const RunFolder run(out);
  if (!has_only(out, "")) {
    if (!run.is_run() && !is_killed_import(out))
      usage_error("--out {} is not empty and is not a run directory; choose another directory",
                  out.string());
    if (!overwrite)
      usage_error(
          "--out {} holds a run already; {}replace it with --overwrite", out.string(),
          run.has_state() ? fmt::format("continue it with --resume {}, or ", out.string()) : "");
  }
  RunFolder::remove_temporaries(folder);
  return folder;
}

}  // namespace heed
