// Means with standard errors, and mean curves over several runs.
#pragma once

#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

#include "nn/lab/names.h"

namespace heed::lab {

/// Mean of several values with its standard error.
struct MeanError {
  std::size_t n = 0;  ///< number of values
  double mean = NAN;  ///< mean of the values; NaN if there are none
  /// Standard error of the mean: the sample standard deviation (with the divisor n - 1), divided by
  /// sqrt(n). NaN for fewer than two values.
  double error = NAN;
};
/// Returns mean and standard error of all values. Both are NaN if any value is NaN.
MeanError mean_error(const std::vector<double>& values);
/// Returns mean and standard error of the finite values. Other values are ignored.
MeanError finite_mean_error(std::vector<double> values);

/// Values of a quantity of one run, by step.
using StepSeries = std::map<Index, double>;

/// Returns the mean over the finite values of all series, at each step that every series has.
std::map<Index, MeanError> mean_series(const std::vector<const StepSeries*>& series);

}  // namespace heed::lab
