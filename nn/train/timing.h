// Seconds of work, as medians of calls: on a machine that is shared a mean tells of the others.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace heed::nn {

/// The middle one, the lower of two. Needs at least one.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + (std::ssize(values) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Of one call of f.
template <class F>
double seconds_of(const F& f) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  f();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The median of calls of f, one at least, until they have taken so many seconds.
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

}  // namespace heed::nn
