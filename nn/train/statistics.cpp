#include "nn/train/statistics.h"

namespace heed::nn {

MeanError mean_error(const std::vector<double>& values) {
  MeanError result{.n = values.size()};
  const double n = double(result.n);
  double sum = 0, squares = 0;
  for (const double x : values) sum += x;
  if (result.n > 0) result.mean = sum / n;
  for (const double x : values) squares += (x - result.mean) * (x - result.mean);
  if (result.n > 1) result.error = std::sqrt(squares / (n - 1) / n);
  return result;
}

MeanError finite_mean_error(std::vector<double> values) {
  std::erase_if(values, [](double x) { return !std::isfinite(x); });
  return mean_error(values);
}

MeanSeries mean_series(const std::vector<const StepSeries*>& series) {
  std::map<double, std::vector<double>> by_step;
  for (const StepSeries* s : series)
    for (std::size_t i = 0; i < s->steps.size(); ++i) by_step[s->steps[i]].push_back(s->values[i]);
  MeanSeries mean;
  for (const auto& [step, values] : by_step) {
    if (values.size() < series.size()) continue;
    mean.steps.push_back(step);
    mean.values.push_back(finite_mean_error(values));
  }
  return mean;
}

double first_step(const StepSeries& series, double target, bool rises) {
  for (std::size_t i = 0; i < series.steps.size(); ++i)
    if (rises ? series.values[i] >= target : series.values[i] <= target) return series.steps[i];
  return NAN;
}

}  // namespace heed::nn
