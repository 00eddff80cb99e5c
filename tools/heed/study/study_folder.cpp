#include "tools/heed/study/study_folder.h"

#include <system_error>

#include "tools/heed/report/output.h"

namespace heed {

std::filesystem::path study_folder(const std::string& out, const std::filesystem::path& usual,
                                   const std::string& marker, bool overwrite) {
  const auto is_free = [&](const std::filesystem::path& folder) {
    std::error_code ignored;
    return !std::filesystem::exists(folder / marker, ignored);
  };
  std::filesystem::path folder = out.empty() ? usual : std::filesystem::path(out);
  if (overwrite || is_free(folder)) return folder;
  if (!out.empty())
    usage_error(
        "--out {} holds a study already; choose another folder, or replace it with "
        "--overwrite",
        out);
  for (int n = 2; !is_free(folder); ++n) folder = usual.string() + fmt::format("-{}", n);
  return folder;
}

}  // namespace heed
