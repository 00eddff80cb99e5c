// Comparison of many runs: one quantity of each run, and its mean over the seeds of each setting.
#pragma once

#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/study/head_scores.h"
#include "nn/train/config.h"
#include "nn/train/statistics.h"

namespace heed::nn {

/// The quantity that is compared: "loss", "accuracy", or the name of a number of heads.
struct ComparedQuantity {
  /// Takes one of names().
  explicit ComparedQuantity(std::string name);
  /// Returns all names that the constructor takes.
  static std::vector<std::string> names();

  /// Returns whether a larger value is better.
  bool rises() const { return name != "loss"; }
  /// Returns a description with its unit: "evaluation loss (nats per token)".
  std::string words() const;

  std::string name;                    ///< the name given to the constructor
  const HeadQuantity* head = nullptr;  ///< the number of heads; null for loss and accuracy
};

/// One run. A number that is unknown is NaN.
struct ComparedRun {
  std::filesystem::path folder;        ///< run directory
  RunConfig config = {};               ///< its configuration
  double accuracy = NAN;               ///< of the last evaluation; 0 to 1
  double above = NAN;                  ///< last evaluation loss minus the optimal loss, nats
  double seconds = NAN;                ///< training time, if heed sweep trained it without a resume
  StepSeries series = {};              ///< the compared quantity at its steps
  std::vector<HeadReport> heads = {};  ///< for the last weights, if a number of heads is compared

  // Set by group_runs().
  double final = NAN;            ///< last value of the series
  double best = NAN;             ///< best finite value of the series
  double steps_to_target = NAN;  ///< first step whose value reaches the target
};

/// Reads the configuration and the history of a run, and result.json if heed sweep wrote one. For a
/// number of heads the series stays empty. Throws IoError or ValueError, which name the file.
/// Throws IoError if the history has no evaluation.
ComparedRun read_compared(const std::filesystem::path& folder, const ComparedQuantity& of);
/// Measures a number of heads at every checkpoint and for the last weights. The series gets the
/// largest value of any head. Throws IoError if weights or texts cannot be read.
void measure_heads(ComparedRun& run, const ComparedQuantity& of);

/// A setting: the runs that differ only in their seed, and the means over these runs.
struct RunGroup {
  /// Keys and values of the options that differ between any two runs of the comparison.
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<ComparedRun> runs = {};  ///< one for each seed
  MeanError final = {};                ///< of ComparedRun::final
  MeanError accuracy = {};             ///< of ComparedRun::accuracy
  MeanError above = {};                ///< of ComparedRun::above
  MeanError steps_to_target = {};      ///< of ComparedRun::steps_to_target
  MeanError seconds = {};              ///< of ComparedRun::seconds
  double best = NAN;                   ///< best value of any run
  MeanSeries curve = {};               ///< mean of the series over the runs

  /// Returns "scale=none, kv-heads=2", or "all runs" if no option differs.
  std::string name() const;
  /// Returns the name without one option, or "" if that is the only option.
  std::string name_without(const std::string& option) const;
  /// Returns the value of an option that differs.
  const std::string& value(const std::string& option) const;
};

/// Groups runs by setting. Groups are in the order of their first run. Throws ValueError if two
/// runs have the same options and the same seed.
std::vector<RunGroup> group_runs(std::vector<ComparedRun> runs, const ComparedQuantity& of,
                                 std::optional<double> target);

/// A number of one head, over the runs of a setting.
struct HeadMean {
  std::int64_t layer;  ///< from 0
  std::int64_t head;   ///< from 0
  MeanError value;     ///< over the runs in which the number is finite
};
/// Returns the means of a number for each head, by layer, then head.
std::vector<HeadMean> head_means(const RunGroup& group, const HeadQuantity& quantity);

}  // namespace heed::nn
