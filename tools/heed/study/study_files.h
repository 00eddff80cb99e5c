// Files of a study: its directory, and the table of its cells.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nn/run/result_folder.h"
#include "nn/study/study.h"

namespace heed {

/// Opens the directory of a study. With `overwrite`, this is `out` (or `default_path` if `out` is
/// empty), even if it contains a study. Without `overwrite`, a directory that contains a study of
/// any kind is never opened: if `out` is not empty, a study in it is an error; if `out` is empty,
/// the function opens the first of `default_path`, `default_path`-2, ... that contains no study and
/// is not in use. Throws UsageError for this error, if the only directory that may be opened is in
/// use, and if `overwrite` is set and the directory has files, but no study. Throws the errors of
/// ResultFolder::check_replaceable().
std::unique_ptr<nn::ResultFolder> open_study_folder(const std::string& out,
                                                    const std::filesystem::path& default_path,
                                                    bool overwrite);

/// Returns the table of cells.csv with the columns quantity, layer, head, query, key and value. It
/// has one row for each cell of the scores, the weights and the gradients of both. A quantity is
/// hook_attn_scores or hook_pattern, with _grad appended for a gradient. A value is the shortest
/// decimal text that reads back as the same float32. Throws ValueError if it would have more than
/// 20 million rows.
std::string study_cells(const nn::Study& study);

}  // namespace heed
