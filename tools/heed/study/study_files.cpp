#include "tools/heed/study/study_files.h"

#include <fmt/format.h>

#include "tools/heed/report/output.h"

namespace heed {
namespace fs = std::filesystem;

std::unique_ptr<nn::ResultFolder> open_study_folder(const std::string& out,
                                                    const fs::path& default_path, bool overwrite) {
  fs::path folder = out.empty() ? default_path : fs::path(out);
  const bool no_alternative = overwrite || !out.empty();
  for (int n = 2;; ++n) {
    try {
      auto study = std::make_unique<nn::ResultFolder>(folder, "study");
      if (overwrite && study->is_foreign())
        usage_error("--overwrite: {} contains files, but no study; choose another directory",
                    folder.string());
      if (overwrite || !study->holds_result()) {
        study->check_replaceable();
        return study;
      }
      if (no_alternative)
        usage_error(
            "--out {} already contains a study; choose another directory, or replace the study "
            "with --overwrite",
            out);
    } catch (const nn::FolderInUse& e) {
      if (no_alternative) throw UsageError(e.what());
    }
    folder = default_path.string() + fmt::format("-{}", n);
  }
}

}  // namespace heed
