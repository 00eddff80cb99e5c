// What heed sweep says while it trains: how far it is, and how long the rest takes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "nn/train/config.h"

namespace heed {

/// About how much there is to compute, to weigh runs by: multiplications of all steps.
double work_of(const nn::RunConfig& config);

/// What is left of a run that trains now.
struct RunningWork {
  double work, seconds;  ///< of all of it; since it began
};

/// The speed of one job, from runs that were trained in one go.
class SweepPace {
 public:
  void add(double work, double seconds) { work_ += work, seconds_ += seconds; }
  /// Seconds until `jobs` at a time have done what waits and what runs; NaN before the first run
  /// has ended.
  double left(double waiting, const std::vector<RunningWork>& running, std::size_t jobs) const;

 private:
  double work_ = 0, seconds_ = 0;
};

/// How many runs there are, and how many of them have come how far.
struct SweepCounts {
  std::size_t runs = 0, done = 0, failed = 0, running = 0,
              elsewhere = 0;  ///< done: failed ones, too
};

/// "7 of 20 runs done, 1 failed, 2 at work, 1m20s left"
std::string progress_text(const SweepCounts& counts, double seconds_left);

}  // namespace heed
