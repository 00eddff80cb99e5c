// What a sweep's file asks for: which runs, what they are called, how each is trained.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "nn/train/config.h"

namespace heed {

inline constexpr std::size_t kMostSweepRuns = 10'000;

/// A setting's value `text` without digits that say nothing: 1e-3 and 0.0010000000000000000 are
/// 0.001. What is no number stays.
std::string plain_value(const nn::Setting& setting, const std::string& text);

/// An option and the values it takes, each as a run's name has it.
struct SweptOption {
  std::string key;
  std::vector<std::string> values;
};

/// One combination of the options' values.
struct PlannedRun {
  std::string name;    ///< of its folder: "scale=none,seed=1"
  std::string recipe;  ///< for heed train --config
  nn::RunConfig config;
};

struct SweepPlan {
  /// [train], key and value.
  std::vector<std::pair<std::string, std::string>> base;
  std::vector<SweptOption> options;  ///< [sweep], in the file's order
  std::vector<std::string> pairs;    ///< those of them that go together
  std::vector<PlannedRun> runs;      ///< the last option changes fastest
};

/// Reads `text`, the contents of `file`: what all runs share under [train], lists under [sweep],
/// every combination a run. Options named by `pairs`, here or in [sweep], go together instead: the
/// first values of each, the second ones, ... UsageError or ValueError with file and
/// line for what is not a sweep, for a run that cannot be, and for more than kMostSweepRuns.
SweepPlan plan_sweep(const std::string& text, const std::string& file,
                     std::vector<std::string> pairs = {});

/// `text` with these pairs, if there are any, as a line of its own under [sweep]. UsageError if
/// there is no such line.
std::string with_pairs(std::string text, const std::vector<std::string>& pairs);

/// "" if `now` has all that `before` had, with the same pairs, and perhaps more values, else what
/// differs.
std::string no_longer_planned(const SweepPlan& before, const SweepPlan& now);

/// Run number `index` of a sweep is one of part `part` of `parts`, both from 0.
constexpr bool is_in_part(std::size_t index, std::size_t part, std::size_t parts) {
  return index % parts == part;
}

}  // namespace heed
