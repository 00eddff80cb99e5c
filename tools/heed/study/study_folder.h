// Where a study's files go.
#pragma once

#include <filesystem>
#include <string>

namespace heed {

/// As a run's --out, a folder that holds a study already, of any kind, is not replaced unasked
/// (UsageError); without --out it is the next free one of `usual`, `usual`-2, ...
std::filesystem::path study_folder(const std::string& out, const std::filesystem::path& usual,
                                   bool overwrite);

}  // namespace heed
