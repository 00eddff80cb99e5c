// Comparison of many runs by one quantity. Runs that differ only in their seed form a group, and
// the quantity is averaged over each group.
#pragma once

#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "nn/run/run_result.h"
#include "nn/train/config.h"
#include "nn/train/metrics.h"
#include "nn/train/statistics.h"

namespace heed {

/// The quantity that is compared: "loss" or "accuracy" of the result of a run (RunResult), or
/// "eval_loss" or "eval_accuracy" of its last evaluation during training.
struct ComparedQuantity {
  std::string name;  ///< one of these four names

  /// Returns true if training raises the quantity, false if training lowers it.
  bool rises() const { return name == "accuracy" || name == "eval_accuracy"; }
  /// Returns true if the quantity is a part of the result of a run.
  bool is_result() const { return name == "loss" || name == "accuracy"; }
  /// Returns the name of the quantity in the series of a run: "eval_loss" for "loss" and
  /// "eval_accuracy" for "accuracy", otherwise `name`.
  std::string series_name() const { return is_result() ? "eval_" + name : name; }
  /// Returns a description with the unit, such as "loss (nats per token)".
  std::string words() const { return rises() ? name : name + " (nats per token)"; }
};

/// One run of a comparison. A number that is unknown is NaN.
struct ComparedRun {
  std::filesystem::path folder;  ///< run directory
  nn::RunConfig config = {};     ///< configuration of the run
  double seconds = NAN;          ///< training time of a run that was not resumed
  nn::StepSeries series = {};    ///< steps, and series_name() of the quantity at each of them
  double final = NAN;            ///< the compared quantity at the end
  double accuracy = NAN;         ///< accuracy at the end, 0 to 1
  double above = NAN;            ///< loss minus optimal loss at the end, nats
  double best = NAN;             ///< best finite value in the series; set by group_runs()
};

/// Reads the configuration, the history and the result of a run. The numbers at the end are those
/// of the last evaluation during training if `of` is eval_loss or eval_accuracy, otherwise those of
/// the result. If the run has no state file, only the configuration is read. Throws IoError or
/// ValueError, with the name of the file, if a file cannot be used. Throws IoError if the history
/// has no evaluation.
ComparedRun read_compared(const std::filesystem::path& folder, const ComparedQuantity& of);

/// A group of runs that differ only in their seed, and the means over these runs.
struct RunGroup {
  /// Key and value of each option that is not equal in all runs of the comparison. All runs of the
  /// group have these values.
  std::vector<std::pair<std::string, std::string>> options;
  /// The options as text, such as "scale=none, kv-heads=2", or "all runs" if `options` is empty. A
  /// caller may choose another name.
  std::string name = {};
  std::vector<ComparedRun> runs = {};                ///< the runs; no two have the same seed
  double best = NAN;                                 ///< best value of any run
  std::map<std::int64_t, nn::MeanError> curve = {};  ///< mean of ComparedRun::series

  /// Returns the mean of a number over the runs in which it is finite.
  nn::MeanError mean(double ComparedRun::*number) const;
  /// Returns the value of an option, which must be in `options`.
  const std::string& value(const std::string& option) const;
};

/// Groups the runs that differ only in their seed. Groups are in the order of their first run.
/// Throws ValueError if two runs have the same options and the same seed.
std::vector<RunGroup> group_runs(std::vector<ComparedRun> runs, const ComparedQuantity& of);

}  // namespace heed
