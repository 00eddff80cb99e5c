// Runs in groups that differ only in their seed, with means over each group.
#pragma once

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "nn/lab/train/config.h"
#include "nn/lab/train/statistics.h"
#include "tools/plot/chart.h"

namespace heed {

/// One run of a comparison. A number that is unknown is NaN.
struct ComparedRun {
  std::filesystem::path folder;    ///< run directory
  lab::RunConfig config = {};      ///< configuration of the run
  lab::StepSeries eval_loss = {};  ///< loss of the evaluations during training
  double loss = NAN;               ///< on the whole evaluation set at the end, nats per token
  double above_optimum = NAN;      ///< loss minus the optimal loss of the same sequences
  double accuracy = NAN;           ///< at the end, 0 to 1
  double seconds = NAN;            ///< training time of a run that was not resumed
};

/// Reads a run. If it has no state file, only the configuration is read. Throws IoError or
/// ValueError, with the name of the file, if a file cannot be used.
ComparedRun read_compared(const std::filesystem::path& folder);

/// Runs that differ only in their seed: a setting.
struct RunGroup {
  /// Key and value of the options in which the runs of the comparison differ: "task" if there are
  /// several tasks, and those in which the runs of this task differ.
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<ComparedRun> runs = {};  ///< no two have the same seed

  /// Returns the options as text, such as "copy, scale=none"; "all runs" if there are none.
  std::string name() const;
  /// Returns the mean of a number over the runs in which it is finite.
  lab::MeanError mean(double ComparedRun::*number) const;
};

/// Returns the groups of at least one run, in the order of their first run. Throws ValueError if
/// two runs have the same options and the same seed.
std::vector<RunGroup> group_runs(std::vector<ComparedRun> runs);

inline constexpr std::size_t kMostCurves = 8;  ///< largest number of curves of curves_chart()
/// Returns a chart of the mean eval_loss of each group by training step, with a band of one
/// standard error above and below. It shows only the first kMostCurves groups.
plot::LineChart curves_chart(const std::vector<RunGroup>& groups);

}  // namespace heed
