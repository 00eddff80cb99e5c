#include "nn/lab/train/statistics.h"

namespace heed::lab {

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

std::map<Index, MeanError> mean_series(const std::vector<const StepSeries*>& series) {
  std::map<Index, std::vector<double>> by_step;
  for (const StepSeries* s : series)
    for (const auto& [step, value] : *s) by_step[step].push_back(value);
  std::map<Index, MeanError> means;
  for (const auto& [step, values] : by_step)
    if (values.size() == series.size()) means[step] = finite_mean_error(values);
  return means;
}

}  // namespace heed::lab
