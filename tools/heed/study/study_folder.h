// Where a study's files go.
#pragma once

#include <filesystem>
#include <string>

namespace heed {

/// As a run's --out, a folder that holds `marker`, a study's file, already is not replaced unasked
/// (UsageError); without --out it is the next free one of `usual`, `usual`-2, ...
std::filesystem::path study_folder(const std::string& out, const std::filesystem::path& usual,
                                   const std::string& marker, bool overwrite);

}  // namespace heed
