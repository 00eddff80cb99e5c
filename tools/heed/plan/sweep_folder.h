// The folder of a sweep: a copy of its file as sweep.toml, recipes/NAME.toml and a folder NAME for
// each run.
#pragma once

#include <filesystem>
#include <string>

#include "nn/run/run_folder.h"
#include "tools/heed/plan/sweep_plan.h"

namespace heed {

/// Whether the folder holds a sweep.toml.
bool is_sweep(const std::filesystem::path& folder);

/// The plan of the sweep in `folder`. IoError, and errors as plan_sweep().
SweepPlan read_plan(const std::filesystem::path& folder);

/// UsageError unless `folder` can take this sweep: absent, empty, of this sweep, perhaps of fewer
/// values, or of one that has begun no run.
void check_sweep_folder(const std::filesystem::path& folder, const SweepPlan& plan);

/// Makes the folder and its sweep.toml, `text`. IoError.
void keep_sweep(const std::filesystem::path& folder, const std::string& text);

/// The run's recipe as a file for --config, written anew. IoError.
std::filesystem::path keep_recipe(const std::filesystem::path& folder, const PlannedRun& run);

/// The state of a run of the sweep. What a kill left of it is put in order first.
using RunState = nn::RunFolder::State;
RunState state_of(const std::filesystem::path& run);

}  // namespace heed
