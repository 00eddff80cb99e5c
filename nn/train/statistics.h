// Means of several runs, over their seeds.
#pragma once

#include <cmath>
#include <cstddef>
#include <map>
#include <vector>

namespace heed::nn {

/// The mean of the finite values. `error` is its standard error, the standard deviation (n - 1)
/// over sqrt(n): NaN for fewer than two.
struct MeanError {
  std::size_t n = 0;
  double mean = NAN, error = NAN;
};
MeanError mean_error(const std::vector<double>& values);

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
