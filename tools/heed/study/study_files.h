// Files of a study: its directory, and its arrays in formats that other programs read.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nn/io/setting.h"
#include "nn/run/staged_folder.h"
#include "nn/study/study.h"

namespace heed {

/// Opens the directory of a study and creates its staging directory. With `overwrite`, this is
/// `out` (or `default_path` if `out` is empty), even if it contains a study. Without `overwrite`, a
/// directory that contains a study of any kind is never opened: if `out` is not empty, a study in
/// it is an error; if `out` is empty, the function opens the first of `default_path`,
/// `default_path`-2, ... that contains no study and is not in use. Throws UsageError for this
/// error, and if the only directory that may be opened is in use.
std::unique_ptr<nn::StagedFolder> open_study_folder(const std::string& out,
                                                    const std::filesystem::path& default_path,
                                                    bool overwrite);

/// Formats of --export.
enum class StudyExport {
  kNpy,  ///< npy/NAME.npy for each array, which numpy.load reads
  kCsv,  ///< cells.csv, the table of study_cells()
};

/// Writes the arrays into `folder` and returns the paths of the files. Throws IoError, and
/// ValueError if a table would have more than 20 million rows.
std::vector<std::filesystem::path> export_study(const std::filesystem::path& folder,
                                                const nn::Study& study, StudyExport format);
/// Returns the table of cells.csv with the columns quantity, layer, head, query, key and value. It
/// has one row for each cell of the scores, the weights and the gradients of both. A quantity is
/// hook_attn_scores or hook_pattern, with _grad appended for a gradient. A value is the shortest
/// decimal text that reads back as the same float32.
std::string study_cells(const nn::Study& study);

}  // namespace heed

template <>
struct heed::nn::EnumNames<heed::StudyExport> {
  static constexpr std::pair<heed::StudyExport, const char*> kTable[] = {
      {heed::StudyExport::kNpy, "npy"}, {heed::StudyExport::kCsv, "csv"}};
};
