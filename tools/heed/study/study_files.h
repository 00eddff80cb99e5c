// Files of a study: its directory, and the table of its cells.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nn/run/result_folder.h"
#include "nn/study/study.h"

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

/// Returns the table of cells.csv with the columns quantity, layer, head, query, key and value. The
/// table has one row for each cell of the scores, of the weights, and of the gradients of both. A
/// quantity is hook_attn_scores or hook_pattern, with _grad appended for a gradient. A value is the
/// shortest decimal text that reads back as the same float32. Throws ValueError if it would have
/// more than 20 million rows.
std::string study_cells(const nn::Study& study);

}  // namespace heed
