// Trains the runs of a sweep. Each run is a child process, and a limited number of them run at the
// same time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/heed/plan/sweep_plan.h"
#include "tools/heed/report/report.h"

namespace heed {

/// Options of train_runs().
struct SweepJobs {
  std::filesystem::path folder;  ///< directory of the sweep
  std::size_t jobs = 1;          ///< largest number of runs at the same time
  std::int64_t threads = 1;      ///< threads of each run
  std::string simd;              ///< --simd of each run; "" for the default
  bool quiet = false;            ///< print only warnings and failures
};

/// A run of a sweep and its state in this call of train_runs().
struct SweptRun {
  /// When train_runs() returns, the state of a run is kFinished, kBefore, kFailed or kStopped. If
  /// the sweep was interrupted, it may also be kWaiting or kElsewhere.
  enum class State {
    kWaiting,    ///< not started in this call
    kElsewhere,  ///< another process trains it
    kRunning,    ///< a child process trains it
    kFinished,   ///< finished in this call
    kBefore,     ///< was finished before this call, or by another process
    kFailed,     ///< the process of the run failed
    kStopped     ///< its process was stopped because the sweep was interrupted
  };

  const PlannedRun* plan;
  State state = State::kWaiting;
  int exit_code = 0;
  std::string error = {};  ///< why the run failed, such as the last line of its stderr
  Value result = {};       ///< output of `heed train --json`
};

/// Result of train_runs().
struct SweepOutcome {
  std::vector<SweptRun> runs;
  bool interrupted = false;  ///< true: Ctrl-C, SIGTERM or SIGHUP stopped the sweep
  double seconds = 0;        ///< elapsed time
  /// Returns the number of runs in a state.
  std::size_t count(SweptRun::State state) const;
};

/// Trains the given runs to their last step. Finished runs are skipped, and runs that were saved
/// but not finished are resumed. If a run fails, the others continue. After Ctrl-C, SIGTERM or
/// SIGHUP, all runs are saved and stopped.
SweepOutcome train_runs(const SweepJobs& jobs, const std::vector<const PlannedRun*>& runs);

/// Returns an estimate of the number of multiplications in all steps of a run. Only ratios of such
/// estimates are meaningful.
double work_of(const nn::RunConfig& config);

/// Estimates the remaining time of a sweep from its finished runs.
class SweepPace {
 public:
  /// A run that is training.
  struct Running {
    double work;     ///< work_of() of the run, from its first step to its last
    double seconds;  ///< since it was started
  };

  /// Adds a run that was trained without interruption.
  void add(double work, double seconds) { work_ += work, seconds_ += seconds; }
  /// Returns the estimated seconds until all runs are done, if up to `jobs` runs are trained at a
  /// time. `waiting` is the sum of work_of() over the runs that have not been started. Returns NaN
  /// before the first call of add().
  double left(double waiting, const std::vector<Running>& running, std::size_t jobs) const;

 private:
  double work_ = 0, seconds_ = 0;
};

}  // namespace heed

template <>
inline constexpr auto heed::nn::kEnumNames<heed::SweptRun::State> =
    std::to_array({"waiting", "waiting", "waiting", "finished", "before", "failed", "stopped"});
