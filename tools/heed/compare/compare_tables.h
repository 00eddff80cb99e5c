// What heed compare prints and writes: a table, CSV files, JSON.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tools/heed/compare/compared.h"

namespace heed {

/// All that heed compare found.
struct RunComparison {
  ComparedQuantity of;
  std::optional<double> target;
  std::vector<RunGroup> groups;
  std::vector<ComparedGroup> settings;  ///< of these groups
};

/// A line per setting: n, of how many finite last values the mean is, the last value as mean and
/// standard error, the best, accuracy, steps to the target, seconds; then, of a head's score, a
/// line per head.
std::string comparison_table(const RunComparison& c);

/// Writes compare.csv (a line per setting), runs.csv (per run), curves.csv (per setting and step)
/// and, of a head's score, heads.csv (per setting, head and score). Returns them. IoError.
std::vector<std::filesystem::path> write_comparison(const std::filesystem::path& folder,
                                                    const RunComparison& c);

/// "settings" of --json: an object per setting, with its runs and, of a head's score, its heads.
nn::Json comparison_json(const RunComparison& c);

}  // namespace heed
