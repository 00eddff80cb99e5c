// The files of a study: their directory, and the arrays in forms that other programs read.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nn/io/setting.h"
#include "nn/run/staged_folder.h"
#include "nn/study/study.h"

namespace heed {

/// Opens the directory `out` or, if that is empty, the first of `usual`, `usual`-2, ... that holds
/// no study and is not in use. With `overwrite` it may hold a study, and is `out` or `usual`
/// itself. UsageError if the directory holds a study of any kind, or is in use. Its staging()
/// exists.
std::unique_ptr<nn::StagedFolder> open_study_folder(const std::string& out,
                                                    const std::filesystem::path& usual,
                                                    bool overwrite);

enum class StudyExport {
  kNpy,  ///< npy/NAME.npy, an array each: numpy.load reads it
  kCsv,  ///< cells.csv: quantity,layer,head,query,key,value, one row per cell of what has keys
};

/// Writes them into `folder`. Returns the files. IoError; ValueError where a table would have more
/// than 20 million rows.
std::vector<std::filesystem::path> export_study(const std::filesystem::path& folder,
                                                const nn::Study& study, StudyExport form);
/// The table of cells.csv: quantities are sites, and sites + "_grad", of [1, H, T, T]; a value is
/// the shortest decimal that reads back as the same float32.
std::string study_cells(const nn::Study& study);

}  // namespace heed

template <>
struct heed::nn::EnumNames<heed::StudyExport> {
  static constexpr std::pair<heed::StudyExport, const char*> kTable[] = {
      {heed::StudyExport::kNpy, "npy"}, {heed::StudyExport::kCsv, "csv"}};
};
