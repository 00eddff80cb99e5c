// Timing in turns: in each turn every function is timed once, one after the other. Times that are
// compared come from the same turns, because the speed of a shared machine changes within seconds.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "nn/lab/train/cost/timing.h"

namespace heed {

using lab::median;

/// Returns the median of a[t] / b[t] over all turns t. `a` and `b` are times of the same turns. A
/// few slow turns do not change the median.
inline double median_ratio(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t t = 0; t < a.size(); ++t) a[t] /= b[t];
  return median(std::move(a));
}

/// Limit in seconds: if a call takes longer than this and longer than a turn, it is timed without a
/// warm-up call. In the first call after another function, the data are outside the caches and the
/// threads sleep. On Zen 4, it took up to 0.6 ms longer (65 x 384 x 2048: 1.7 instead of 1.1 ms). A
/// call of 20 ms took up to 0.3 ms longer.
constexpr double kLongCall = 0.01;

/// Returns the seconds that one call takes, as [function][turn]. In each turn every function is
/// repeated for about `turn` seconds, but at least once, after a call to warm up that is not timed.
/// Before the first turn each function is called twice. before_turn(t), if not null, is called
/// before turn t.
inline std::vector<std::vector<double>> seconds_by_turn(
    const std::vector<std::function<void()>>& functions, int turns = 11, double turn = 2e-3,
    const std::function<void(int)>& before_turn = nullptr) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](const std::function<void()>& f, Index repeats) {
    const auto start = Clock::now();
    for (Index i = 0; i < repeats; ++i) f();
    return std::chrono::duration<double>(Clock::now() - start).count() / double(repeats);
  };
  std::vector<Index> repeats;
  std::vector<bool> warm_up;
  for (const auto& f : functions) {
    const double cold = seconds(f, 1), once = std::max(std::min(cold, seconds(f, 1)), 1e-9);
    repeats.push_back(std::clamp<Index>(Index(turn / once), 1, 1 << 22));
    warm_up.push_back(once <= std::max(turn, kLongCall));
  }
  std::vector<std::vector<double>> times(functions.size());
  for (int t = 0; t < turns; ++t) {
    if (before_turn) before_turn(t);
    for (std::size_t i = 0; i < functions.size(); ++i) {
      // Waits until the threads of the previous function no longer spin on the cores.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (warm_up[i]) functions[i]();
      times[i].push_back(seconds(functions[i], repeats[i]));
    }
  }
  return times;
}

}  // namespace heed
