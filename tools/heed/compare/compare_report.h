// The results of the command `heed compare`: a Report, CSV files and pictures.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nn/study/comparison.h"
#include "tools/heed/report/report.h"
#include "tools/plot/chart.h"

namespace heed {

/// The runs of a comparison, grouped into settings. A setting is a group of runs that differ only
/// in their seeds.
struct RunComparison {
  nn::ComparedQuantity of;           ///< the compared quantity
  std::optional<double> target;      ///< value of the quantity for steps_to_target
  std::vector<nn::RunGroup> groups;  ///< at least one, each with at least one run

  /// Returns the task of all runs.
  const std::string& task() const { return groups[0].runs[0].config.task; }
};

extern const Columns kComparisonKeys;  ///< keys of comparison_report()

/// Returns a report with a row per setting, in which n is the number of runs with a finite last
/// value. If the quantity is a score of heads, adds a row per head. Does not set the keys left_out
/// and files.
Report comparison_report(const RunComparison& c);

/// Writes compare.csv (a line per setting), runs.csv (per run), curves.csv (per setting and step)
/// and, if the quantity is a score of heads, heads.csv (per setting, head and score). Returns their
/// paths. Throws IoError if a file cannot be written.
std::vector<std::filesystem::path> write_comparison(const std::filesystem::path& folder,
                                                    const RunComparison& c);

inline constexpr std::size_t kMostCurves = 8;  ///< largest number of curves of curves_chart()
/// Returns a chart of the mean of each setting over the training steps, with a band of one standard
/// error above and below. Draws only the first kMostCurves settings.
plot::LineChart curves_chart(const RunComparison& c);

/// Returns a chart of the means `number` of all settings against the value of one option. Each
/// combination of the other options has its color. If the values are numbers, draws curves,
/// otherwise points. If `number` is steps_to_target, settings in which not all runs reach the
/// target are not drawn, and the title names them.
plot::LineChart against_chart(const RunComparison& c, const std::string& option,
                              nn::MeanError nn::RunGroup::*number);

/// Draws curves.png. Unless `against` is empty, draws also against.png and, if there is a target,
/// steps.png. Returns their paths. Throws IoError if a file cannot be written.
std::vector<std::filesystem::path> draw_comparison(const std::filesystem::path& folder,
                                                   const RunComparison& c,
                                                   const std::string& against);

}  // namespace heed
