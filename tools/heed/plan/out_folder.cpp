#include "tools/heed/plan/out_folder.h"

#include <algorithm>

#include "tools/heed/report/output.h"

namespace heed {

namespace fs = std::filesystem;
using nn::RunFolder;

namespace {

// Whether there is nothing but perhaps an empty checkpoints/.
bool is_vacant(const fs::path& folder) {
  return std::all_of(fs::directory_iterator(folder), fs::directory_iterator(),
                     [](const fs::directory_entry& entry) {
                       return entry.path().filename() == RunFolder::kCheckpoints &&
                              entry.is_directory() && fs::is_empty(entry.path());
                     });
}

}  // namespace

std::unique_ptr<nn::StagedFolder> open_out(const fs::path& out, bool overwrite) {
  auto folder = std::make_unique<nn::StagedFolder>(out, RunFolder::result_files());
  if (!is_vacant(out)) {
    if (!RunFolder(out).is_run())
      usage_error("--out {} is not empty and holds no run; choose another folder", out.string());
    if (!overwrite && !RunFolder(out).has_saved())
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

}  // namespace heed
