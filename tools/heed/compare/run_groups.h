// Runs, and those of them that differ in nothing but their seed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/train/config.h"
#include "nn/train/metrics.h"

namespace heed {

/// What a run's folder says of it.
struct RunRecord {
  std::filesystem::path folder;
  nn::RunConfig config;
  std::vector<nn::MetricsRow> evaluations;  ///< rows that have one
  std::optional<double> seconds;            ///< if heed sweep trained all of it, in one go
};

/// Reads config.toml, metrics.csv and result.json. IoError or ValueError naming the file; IoError
/// if there is no evaluation.
RunRecord read_record(const std::filesystem::path& folder);

/// An option with its value, as a user writes it (plain_value).
using OptionValue = std::pair<std::string, std::string>;

/// Runs of one setting: equal but for the seed.
struct RunGroup {
  std::vector<OptionValue> values;  ///< of the options that differ among all runs
  std::vector<const RunRecord*> runs;
  /// "scale=none, kv-heads=2"; "all runs" where no option differs.
  std::string name() const;
  /// Its value, or "".
  std::string value(const std::string& option) const;
};

/// In the order in which the runs first have them. UsageError if two runs are one: of equal options
/// and seed.
std::vector<RunGroup> group_runs(const std::vector<RunRecord>& runs);

}  // namespace heed
