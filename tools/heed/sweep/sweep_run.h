// The runs of a sweep, each a process of its own, as many at a time as there is room for.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/heed/plan/sweep_plan.h"
#include "tools/heed/report/report.h"

namespace heed {

struct SweepJobs {
  std::filesystem::path folder;
  std::size_t jobs = 1;      ///< runs at a time
  std::int64_t threads = 1;  ///< of each
  std::string simd;          ///< --simd of each, if any
  bool quiet = false;
};

/// What became of a run.
struct RunOutcome {
  enum class State { kWaiting, kFinished, kBefore, kFailed, kStopped };

  const PlannedRun* run;
  State state = State::kWaiting;
  int exit_code = 0;
  std::string error = {};  ///< its last words, of one that failed
  Value result = {};       ///< what heed train --json printed
};

const char* state_name(RunOutcome::State state);

struct SweepOutcome {
  std::vector<RunOutcome> runs;
  bool interrupted = false;
  double seconds = 0;
  std::size_t count(RunOutcome::State state) const;
};

/// Trains these runs to their end: those that are finished are left alone, those that have saved go
/// on. One that fails stops no other. Ctrl-C, SIGTERM and SIGHUP stop all, each saved.
SweepOutcome train_runs(const SweepJobs& jobs, const std::vector<const PlannedRun*>& runs);

}  // namespace heed
