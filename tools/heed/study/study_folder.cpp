#include "tools/heed/study/study_folder.h"

#include <algorithm>
#include <iterator>
#include <system_error>

#include "tools/heed/report/output.h"

namespace heed {
namespace {

// Of any study, one of one sequence, of two runs or over time.
constexpr const char* kStudyFiles[] = {"arrays.safetensors", "compare.csv", "over_time.csv",
                                       "report.html"};

}  // namespace

std::filesystem::path study_folder(const std::string& out, const std::filesystem::path& usual,
                                   bool overwrite) {
  const auto is_free = [](const std::filesystem::path& folder) {
    return std::none_of(std::begin(kStudyFiles), std::end(kStudyFiles), [&](const char* file) {
      std::error_code ignored;
      return std::filesystem::exists(folder / file, ignored);
    });
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
