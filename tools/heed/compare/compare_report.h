// The results of heed compare: a Report, CSV files and pictures.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/study/comparison.h"
#include "tools/heed/report/report.h"
#include "tools/plot/chart.h"

namespace heed {

/// The result of heed compare.
struct RunComparison {
  nn::ComparedQuantity of;
  std::optional<double> target;
  std::vector<nn::RunGroup> groups;

  const std::string& task() const { return groups[0].runs[0].config.task; }
};

extern const Columns kComparisonKeys;  ///< of comparison_report()

/// A row per setting; n is the number of finite last values that the mean is of. Then, of a head's
/// score, a row per head. The keys left_out and files are not set.
Report comparison_report(const RunComparison& c);

/// Writes compare.csv (a line per setting), runs.csv (per run), curves.csv (per setting and step)
/// and, of a head's score, heads.csv (per setting, head and score). Returns them. IoError.
std::vector<std::filesystem::path> write_comparison(const std::filesystem::path& folder,
                                                    const RunComparison& c);

/// Means over the steps of training, a curve per setting, the first kMostCurves of them, each in a
/// band of one standard error to either side.
inline constexpr std::size_t kMostCurves = 8;
plot::LineChart curves_chart(const RunComparison& c);

/// The means `number` of each setting against the value of one option, a color for each combination
/// of the others: as curves, from left to right, where the values are numbers, else as points. Of
/// steps_to_target a setting of which not all runs reach it is not drawn but named in the title.
plot::LineChart against_chart(const RunComparison& c, const std::string& option,
                              nn::MeanError nn::RunGroup::*number);

/// Draws curves.png and, unless `against` is empty, against.png and, of a target, steps.png.
/// Returns them. IoError.
std::vector<std::filesystem::path> draw_comparison(const std::filesystem::path& folder,
                                                   const RunComparison& c,
                                                   const std::string& against);

}  // namespace heed
