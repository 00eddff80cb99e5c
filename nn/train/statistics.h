// Means with standard errors, and mean curves over several runs.
#pragma once

#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

namespace heed::nn {

/// Mean of several values with its standard error.
struct MeanError {
  std::size_t n = 0;  ///< number of values
  double mean = NAN;  ///< NaN without values
  /// Standard error of the mean: the standard deviation (with n - 1) divided by sqrt(n). NaN for
  /// fewer than two values.
  double error = NAN;
};
/// Returns mean and standard error of all values. They are NaN if one of the values is NaN.
MeanError mean_error(const std::vector<double>& values);
/// Returns mean and standard error of the finite values.
MeanError finite_mean_error(std::vector<double> values);

/// A quantity of one run at some of its steps.
struct StepSeries {
  std::vector<double> steps;   ///< steps, increasing
  std::vector<double> values;  ///< one value per step
};

/// A quantity of several runs, averaged at each step.
struct MeanSeries {
  std::vector<double> steps;      ///< steps that every run has, increasing
  std::vector<MeanError> values;  ///< mean over the runs, one per step
};
/// Returns the mean over all series at each step that every series has.
MeanSeries mean_series(const std::vector<const StepSeries*>& series);

/// Returns the first step whose value is at most `target`, or at least `target` if `rises`. Returns
/// NaN if no step reaches it.
double first_step(const StepSeries& series, double target, bool rises);

}  // namespace heed::nn
