// The plan of a sweep: the runs that its file describes, and the directory that contains them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "nn/io/toml.h"
#include "nn/run/run_folder.h"

namespace heed {

inline constexpr std::size_t kMostSweepRuns = 10'000;  ///< largest number of runs of a sweep

/// One combination of the values of the swept options.
struct PlannedRun {
  std::string name;      ///< name of its directory: "scale=none,seed=1"
  std::string recipe;    ///< TOML text for `heed train --config`
  nn::RunConfig config;  ///< the configuration that the recipe describes
};

/// The contents of a sweep file. Numbers are written as in the names of runs: 0.001 for 1e-3.
struct SweepPlan {
  std::vector<nn::TomlItem> base;   ///< options under [train], each with one value
  std::vector<nn::TomlItem> lists;  ///< options under [sweep], without `pairs`
  std::vector<std::string> pairs;   ///< keys of the lists that are paired; see plan_sweep()
  std::vector<PlannedRun> runs;     ///< all runs; the value of the last list changes fastest
};

/// Parses `text`, the contents of `file`. Options under [train] are shared by all runs. Options
/// under [sweep] are lists, and every combination of their values is a run. The options that
/// `pairs` in [sweep] names are an exception: their first values are used together, then their
/// second values, and so on. Throws UsageError or ValueError if the text is not a sweep, if a run
/// is invalid, or if there are more than kMostSweepRuns runs.
SweepPlan plan_sweep(const std::string& text, const std::string& file);

/// Returns "" if `now` contains all runs of `before`, with the same options and pairs. `now` may
/// contain more values of the options. Otherwise returns a sentence about the first difference.
std::string no_longer_planned(const SweepPlan& before, const SweepPlan& now);

// ---- The directory of a sweep
// It contains a copy of the sweep file as sweep.toml, recipes/NAME.toml and a directory NAME for
// each run.

/// Returns whether the directory contains a sweep.toml.
bool is_sweep(const std::filesystem::path& folder);

/// Reads the plan of the sweep in `folder`. Throws IoError if the file cannot be read, and throws
/// like plan_sweep().
SweepPlan read_plan(const std::filesystem::path& folder);

/// Throws UsageError unless the sweep `plan` can use the directory. It can use a directory that is
/// missing or empty, that contains this sweep, possibly with fewer values, or that contains any
/// sweep without run directories.
void check_sweep_folder(const std::filesystem::path& folder, const SweepPlan& plan);

/// Creates the directory, removes temporary files that a killed sweep left in it, and writes `text`
/// as its sweep.toml. Throws IoError if this fails.
void save_sweep(const std::filesystem::path& folder, const std::string& text);

/// Writes the run's recipe as a file for --config and returns its path. Throws IoError if this
/// fails.
std::filesystem::path save_recipe(const std::filesystem::path& folder, const PlannedRun& run);

using RunState = nn::RunFolder::State;
}  // namespace heed

template <>
inline constexpr auto heed::nn::kEnumNames<heed::RunState> =
    std::to_array({"not begun", "only weights", "not finished", "finished"});
