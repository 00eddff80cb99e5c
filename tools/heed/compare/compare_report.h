// The result of heed compare: a Report, and CSV files.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "tools/heed/compare/compared.h"
#include "tools/heed/report/report.h"

namespace heed {

/// All that heed compare found.
struct RunComparison {
  ComparedQuantity of;
  std::optional<double> target;
  std::vector<RunGroup> groups;
  std::vector<ComparedGroup> settings;  ///< of these groups
};

extern const Columns kComparisonKeys;  ///< of comparison_report()

/// A row per setting: n, of how many finite last values the mean is, the last value as mean and
/// standard error, the best, accuracy, steps to the target, seconds; then, of a head's score, a
/// row per head. left_out and files are the caller's.
Report comparison_report(const RunComparison& c);

/// Writes compare.csv (a line per setting), runs.csv (per run), curves.csv (per setting and step)
/// and, of a head's score, heads.csv (per setting, head and score). Returns them. IoError.
std::vector<std::filesystem::path> write_comparison(const std::filesystem::path& folder,
                                                    const RunComparison& c);

}  // namespace heed
