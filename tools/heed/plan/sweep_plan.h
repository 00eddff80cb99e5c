// A sweep: which runs its file describes, and the folder that holds them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "nn/io/toml.h"
#include "nn/run/run_folder.h"

namespace heed {

inline constexpr std::size_t kMostSweepRuns = 10'000;

/// One combination of the options' values.
struct PlannedRun {
  std::string name;    ///< of its folder: "scale=none,seed=1"
  std::string recipe;  ///< for heed train --config
  nn::RunConfig config;
};

/// The contents of a sweep's file. Numbers have the digits that a run's name has: 1e-3 is 0.001.
struct SweepPlan {
  std::vector<nn::TomlItem> base;   ///< [train], a value each
  std::vector<nn::TomlItem> lists;  ///< [sweep], but for `pairs`
  std::vector<std::string> pairs;   ///< keys of lists that go together
  std::vector<PlannedRun> runs;     ///< the last list changes fastest
};

/// Reads `text`, the contents of `file`: what all runs share under [train], lists under [sweep],
/// every combination a run. Options named by `pairs`, here or in [sweep], go together instead: the
/// first values of each, the second ones, ... UsageError or ValueError with file and line for text
/// that is not a sweep, for a run that cannot be, and for more than kMostSweepRuns.
SweepPlan plan_sweep(const std::string& text, const std::string& file,
                     const std::vector<std::string>& pairs = {});

/// `text` with these pairs, if there are any, as a line of its own under [sweep]. UsageError if
/// there is no such line.
std::string with_pairs(std::string text, const std::vector<std::string>& pairs);

/// "" if `now` has all that `before` had, with the same pairs, and perhaps more values, else what
/// differs.
std::string no_longer_planned(const SweepPlan& before, const SweepPlan& now);

// The folder of a sweep: a copy of its file as sweep.toml, recipes/NAME.toml and a folder NAME for
// each run.

/// Returns whether the folder has a sweep.toml.
bool is_sweep(const std::filesystem::path& folder);

/// Reads the plan of the sweep in `folder`. IoError, and errors as plan_sweep().
SweepPlan read_plan(const std::filesystem::path& folder);

/// UsageError unless `folder` can take this sweep: absent, empty, of this sweep, perhaps of fewer
/// values, or of one that has begun no run.
void check_sweep_folder(const std::filesystem::path& folder, const SweepPlan& plan);

/// Makes the folder and its sweep.toml, `text`. IoError.
void keep_sweep(const std::filesystem::path& folder, const std::string& text);

/// Writes the run's recipe as a file for --config. IoError.
std::filesystem::path keep_recipe(const std::filesystem::path& folder, const PlannedRun& run);

/// Returns the state of a run of the sweep. Finishes its publication first, if a kill interrupted
/// it.
using RunState = nn::RunFolder::State;
RunState state_of(const std::filesystem::path& run);

}  // namespace heed

template <>
struct heed::nn::EnumNames<heed::RunState> {
  static constexpr std::pair<heed::RunState, const char*> kTable[] = {
      {heed::RunState::kNew, "not begun"},
      {heed::RunState::kUnsaved, "never saved"},
      {heed::RunState::kSaved, "not finished"},
      {heed::RunState::kFinished, "finished"}};
};
