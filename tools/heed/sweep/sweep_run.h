// The runs of a sweep, each a process of its own, as many at a time as there is room for.
#pragma once

#include <cmath>
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

/// A run of this call. At its end it is finished, was finished before, has failed, was stopped, or
/// still waits because the sweep was stopped.
struct SweptRun {
  enum class State { kWaiting, kElsewhere, kAtWork, kFinished, kBefore, kFailed, kStopped };

  const PlannedRun* plan;
  State state = State::kWaiting;  ///< kElsewhere: another process trains it
  int exit_code = 0;
  std::string error = {};  ///< the last line of stderr, of a run that failed
  Value result = {};       ///< what heed train --json printed
};

struct SweepOutcome {
  std::vector<SweptRun> runs;
  bool interrupted = false;
  double seconds = 0;
  std::size_t count(SweptRun::State state) const;
};

/// Trains these runs to their end: those that are finished are left alone, those that have saved
/// are resumed. One that fails stops no other. Ctrl-C, SIGTERM and SIGHUP stop all, each saved.
SweepOutcome train_runs(const SweepJobs& jobs, const std::vector<const PlannedRun*>& runs);

/// How far a sweep is.
struct SweepProgress {
  std::size_t runs = 0, done = 0;  ///< done includes failed
  std::size_t failed = 0, at_work = 0, elsewhere = 0;
  double seconds_left = NAN;
  /// "7 of 20 runs done, 1 failed, 2 at work, 1m20s left"
  std::string text() const;
};

/// Estimates the multiplications of all steps, to weigh runs by.
double work_of(const nn::RunConfig& config);

/// The speed of one job, from runs that were trained in one go.
class SweepPace {
 public:
  /// A run that trains now.
  struct Running {
    double work, seconds;  ///< of the whole run; since it began
  };

  void add(double work, double seconds) { work_ += work, seconds_ += seconds; }
  /// Estimated seconds until `jobs` at a time have done the waiting work and the running runs; NaN
  /// before the first run has ended.
  double left(double waiting, const std::vector<Running>& running, std::size_t jobs) const;

 private:
  double work_ = 0, seconds_ = 0;
};

}  // namespace heed

template <>
struct heed::nn::EnumNames<heed::SweptRun::State> {
  using State = heed::SweptRun::State;
  static constexpr std::pair<State, const char*> kTable[] = {
      {State::kWaiting, "waiting"},   {State::kElsewhere, "waiting"}, {State::kAtWork, "waiting"},
      {State::kFinished, "finished"}, {State::kBefore, "before"},     {State::kFailed, "failed"},
      {State::kStopped, "stopped"}};
};
