// The results of the command `heed compare`: an Out, CSV files and pictures.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/heed/compare/compared_runs.h"
#include "tools/heed/report/out.h"
#include "tools/heed/result_folder.h"
#include "tools/plot/chart.h"

namespace heed {

/// The runs of one task in a comparison, in groups. The runs of one group differ only in their
/// seeds. The texts of `heed compare` call a group a setting.
struct RunComparison {
  ComparedQuantity of;           ///< quantity that is compared
  std::vector<RunGroup> groups;  ///< at least one, each with at least one run

  /// Returns the task of the runs, which have one task.
  const std::string& task() const { return groups[0].runs[0].config.task; }
};

/// Names each group after its first run: the shortest end of the run's path that no other first run
/// has, and the number of further runs. Changes no name if there is only one group and it has
/// several runs.
void name_groups(std::vector<RunGroup>& groups);

/// Returns the result without the keys `left_out` and `files`. Its table has one row per group of
/// runs; n is the number of runs whose last value is finite. If there are several tasks, each has
/// tables of its own in text and an object in the list `tasks` of JSON.
Out comparison(const std::vector<RunComparison>& tasks);

/// Writes compare.csv (one line per group of runs), runs.csv (one per run) and curves.csv (one per
/// group and step). If there are several tasks, the first column is the task, and an option that
/// does not differ between the runs of a task is empty in its lines. Returns the paths of the
/// files. Throws IoError if a file cannot be written.
std::vector<std::filesystem::path> write_comparison(ResultFolder& folder,
                                                    const std::vector<RunComparison>& tasks);

inline constexpr std::size_t kMostCurves = 8;  ///< largest number of curves of curves_chart()
/// Returns a chart with one curve per group of runs: the mean over the runs of the group at each
/// training step. A band shows one standard error above and below the mean. Draws only the first
/// kMostCurves groups.
plot::LineChart curves_chart(const RunComparison& c);

/// Draws curves.png. `suffix` is added to the name: curves-copy.png if it is "-copy". Returns the
/// path of the file. Throws IoError if the file cannot be written.
std::filesystem::path draw_comparison(ResultFolder& folder, const RunComparison& c,
                                      const std::string& suffix = "");

}  // namespace heed
