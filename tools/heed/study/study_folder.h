// The directory of a study's files.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "nn/run/staged_folder.h"

namespace heed {

/// Opens the directory `out` or, if that is empty, the first of `usual`, `usual`-2, ... that holds
/// no study and is not in use. With `overwrite` it may hold a study, and is `out` or `usual`
/// itself. UsageError if the directory holds a study of any kind, or is in use. Its staging()
/// exists.
std::unique_ptr<nn::StagedFolder> open_study_folder(const std::string& out,
                                                    const std::filesystem::path& usual,
                                                    bool overwrite);

}  // namespace heed
