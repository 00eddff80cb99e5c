// Means and their standard errors.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace heed::nn {

/// `error` is the standard error of the mean, the standard deviation (n - 1) over sqrt(n): NaN for
/// fewer than two values. The mean of no value is NaN.
struct MeanError {
  std::size_t n = 0;
  double mean = std::numeric_limits<double>::quiet_NaN(), error = mean;
};

/// Mean and standard error of all values; NaN if one of them is NaN.
inline MeanError mean_error(const std::vector<double>& values) {
  MeanError result{.n = values.size()};
  const double n = double(result.n);
  double sum = 0, squares = 0;
  for (const double x : values) sum += x;
  if (result.n > 0) result.mean = sum / n;
  for (const double x : values) squares += (x - result.mean) * (x - result.mean);
  if (result.n > 1) result.error = std::sqrt(squares / (n - 1) / n);
  return result;
}

}  // namespace heed::nn
