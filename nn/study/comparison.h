// Many runs side by side: a quantity of each run, and its means over the seeds of a setting.
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

/// The quantity that is compared: "loss", "accuracy", or the name of a head's score.
struct ComparedQuantity {
  explicit ComparedQuantity(std::string name);
  /// All names that the constructor takes.
  static std::vector<std::string> names();

  bool rises() const { return name != "loss"; }  ///< whether larger is better
  /// "evaluation loss (nats per token)"
  std::string words() const;

  std::string name;
  const HeadQuantity* head = nullptr;  ///< null: loss or accuracy
};

/// One run. Numbers are NaN where they are not known.
struct ComparedRun {
  std::filesystem::path folder;
  RunConfig config = {};
  double accuracy = NAN;               ///< of the last evaluation
  double above = NAN;                  ///< its loss minus the best possible one
  double seconds = NAN;                ///< if heed sweep trained all of the run in one go
  StepSeries series = {};              ///< the quantity
  std::vector<HeadReport> heads = {};  ///< of the last weights, if a head's score is compared
  // Set by group_runs(): the last and the best value of the series, the first step that has the
  // target.
  double final = NAN, best = NAN, steps_to_target = NAN;
};

/// Reads the configuration, the history and, of a sweep, the result of a run. The series of a
/// head's score stays empty. IoError or ValueError that names the file; IoError if the history has
/// no evaluation.
ComparedRun read_compared(const std::filesystem::path& folder, const ComparedQuantity& of);
/// Measures a head's score: the series has the largest of any head, at every checkpoint and at the
/// end. IoError if weights or texts cannot be read.
void measure_heads(ComparedRun& run, const ComparedQuantity& of);

/// A setting: runs that are equal but for their seed, and the means over them.
struct RunGroup {
  /// Keys and values of the options that differ among all runs.
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<ComparedRun> runs = {};
  MeanError final = {}, accuracy = {}, above = {}, steps_to_target = {}, seconds = {};
  double best = NAN;  ///< of any run
  MeanSeries curve = {};

  /// "scale=none, kv-heads=2", or "all runs" if no option differs.
  std::string name() const;
  /// Returns the name without one option; "" if it is the only one.
  std::string name_without(const std::string& option) const;
  /// The value of an option that differs.
  const std::string& value(const std::string& option) const;
};

/// Groups in the order in which the runs first have their options. ValueError if two runs have
/// equal options and seeds.
std::vector<RunGroup> group_runs(std::vector<ComparedRun> runs, const ComparedQuantity& of,
                                 std::optional<double> target);

/// A head's score over the runs of a setting; value.n is the number of runs in which it is finite.
struct HeadMean {
  std::int64_t layer, head;
  MeanError value;
};
/// By layer, then head.
std::vector<HeadMean> head_means(const RunGroup& group, const HeadQuantity& quantity);

}  // namespace heed::nn
