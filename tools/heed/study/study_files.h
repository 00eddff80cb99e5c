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

/// Opens the directory of a study and creates its staging directory. If `out` is empty, it opens
/// the first of `default_path`, `default_path`-2, ... that contains no study and is not in use. If
/// `overwrite` is set, it opens `out` or `default_path` itself, which may contain a study.
/// Otherwise it throws UsageError if `out` contains a study of any kind. It also throws UsageError
/// if the only directory that it may open is in use.
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
/// Returns the table of cells.csv, quantity,layer,head,query,key,value. It has one row for each
/// cell of the scores, the weights and their gradients. A quantity is the name of a site, or that
/// name and
/// "_grad". A value is the shortest decimal text that reads back as the same float32.
std::string study_cells(const nn::Study& study);

}  // namespace heed

template <>
struct heed::nn::EnumNames<heed::StudyExport> {
  static constexpr std::pair<heed::StudyExport, const char*> kTable[] = {
      {heed::StudyExport::kNpy, "npy"}, {heed::StudyExport::kCsv, "csv"}};
};
