// Means and their standard errors; curves of several runs.
#pragma once

#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

namespace heed::nn {

/// `error` is the standard error of the mean, the standard deviation (n - 1) over sqrt(n): NaN for
/// fewer than two values. The mean of no value is NaN.
struct MeanError {
  std::size_t n = 0;
  double mean = NAN, error = NAN;
};
/// Mean and standard error of all values; NaN if one of them is NaN.
MeanError mean_error(const std::vector<double>& values);
/// Mean and standard error of those that are finite.
MeanError finite_mean_error(std::vector<double> values);

/// A quantity of one run at some of its steps.
struct StepSeries {
  std::vector<double> steps, values;
};

/// The mean at every step that each of the series has.
struct MeanSeries {
  std::vector<double> steps;
  std::vector<MeanError> values;
};
MeanSeries mean_series(const std::vector<const StepSeries*>& series);

/// The first step whose value is at most `target`, or at least where `rises`; NaN if there is none.
double first_step(const StepSeries& series, double target, bool rises);

}  // namespace heed::nn
