#include "tools/heed/study/study_folder.h"

#include <algorithm>
#include <vector>

#include "tools/heed/report/output.h"

namespace heed {
namespace {

namespace fs = std::filesystem;

// Studies of one sequence, of two runs and over time have one of the first four.
const std::vector<std::string> kMarks = {"arrays.safetensors", "compare.csv", "over_time.csv",
                                         "report.html"};
const std::vector<std::string> kOthers = {"over_time.json", "over_time.png", "patching.png",
                                          "cells.csv", "by_distance.png"};
// The names of pictures begin with one of these, then comes "", "_L0H1" or "_difference".
const std::vector<std::string> kViews = {"weights", "dA", "dS"};

bool is_study_file(const std::string& name) {
  const auto is_in = [&](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return is_in(kMarks) || is_in(kOthers) || (name.starts_with("npy/") && name.ends_with(".npy")) ||
         std::any_of(kViews.begin(), kViews.end(), [&](const std::string& view) {
           return name == view + ".png" || name == view + "_difference.png" ||
                  (name.starts_with(view + "_L") && name.ends_with(".png"));
         });
}

}  // namespace

std::unique_ptr<nn::StagedFolder> open_study_folder(const std::string& out, const fs::path& usual,
                                                    bool overwrite) {
  fs::path folder = out.empty() ? usual : fs::path(out);
  const bool only_this_one = overwrite || !out.empty();
  for (int n = 2;; ++n) {
    try {
      auto study =
          std::make_unique<nn::StagedFolder>(folder, nn::ResultFiles{kMarks, is_study_file, "npy"});
      if (overwrite || !study->holds_result()) {
        study->staging();
        return study;
      }
      if (only_this_one)
        usage_error(
            "--out {} holds a study already; choose another folder, or replace it with --overwrite",
            out);
    } catch (const nn::FolderInUse& e) {
      if (only_this_one) throw UsageError(e.what());
    }
    folder = usual.string() + fmt::format("-{}", n);
  }
}

}  // namespace heed
