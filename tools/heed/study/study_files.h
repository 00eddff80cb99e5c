// The directory of a study.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "nn/run/result_folder.h"

namespace heed {

/// Opens the directory of a study. With `overwrite`, opens `out`, or `default_path` if `out` is
/// empty, and replaces the study in it. Without `overwrite`, opens a directory that does not
/// contain a study: `out` or, if `out` is empty, the first of `default_path`, `default_path`-2, ...
/// that is not in use. Throws UsageError if `out` contains a study, if the directory is in use, or
/// if `overwrite` is set and the directory contains files, but no study. Throws the errors of
/// ResultFolder::check_replaceable().
std::unique_ptr<nn::ResultFolder> open_study_folder(const std::string& out,
                                                    const std::filesystem::path& default_path,
                                                    bool overwrite);

}  // namespace heed
