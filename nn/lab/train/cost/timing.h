// Timing of calls. Times are medians, because other processes would disturb a mean.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "nn/lab/names.h"

namespace heed::lab {

/// Returns the median: the middle value, or the lower of the two middle values. `values` must not
/// be empty.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the seconds taken by one call of f.
template <class F>
double seconds_of(const F& f) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Calls f at least once, and again until the calls have taken `seconds` in total. Returns the
/// median time of a call in seconds.
template <class F>
double median_call(const F& f, double seconds) {
  std::vector<double> times;
  double total = 0;
  do {
    times.push_back(seconds_of(f));
    total += times.back();
  } while (total < seconds);
  return median(std::move(times));
}

}  // namespace heed::lab
