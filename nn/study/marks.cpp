#include "nn/study/marks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace heed::nn {

namespace {

bool same_sign(const EffectRow& row) { return row.effect.mean * row.predicted > 0; }

double factor_of(const EffectRow& row) { return row.predicted / row.effect.mean; }

// Returns whether the prediction has the right sign and is right within a factor of 3.
bool is_close(const EffectRow& row) { return factor_of(row) >= 1.0 / 3 && factor_of(row) <= 3; }

// Returns the rank of each value; equal values share the mean of their ranks.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> result(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) result[order[i]] = double(first + end - 1) / 2;
    first = end;
  }
  return result;
}

}  // namespace

double smallest_effect(const Objective& objective) { return objective.is_linear() ? 0.05 : 0.01; }

double largest_effect(const std::vector<EffectRow>& rows) {
  double largest = 0;
  for (const EffectRow& row : rows)
    largest = std::max(
        {largest, std::abs(row.effect.mean), row.suffices ? std::abs(row.suffices->mean) : 0});
  return largest;
}

double floor_of(const EffectRow& row, double largest, double smallest) {
  const double error = row.effect.standard_error;
  return std::max({smallest, 0.05 * largest, std::isnan(error) ? 0 : 2 * error});
}

bool suffices_counts(const EffectRow& row, double floor) {
  return row.suffices && std::abs(row.suffices->mean) >= floor_of({*row.suffices, 0}, 0, floor);
}

Mark mark_of(const EffectRow& row, double floor) {
  const bool has_effect = std::abs(row.effect.mean) >= floor,
             is_predicted = std::abs(row.predicted) >= floor;
  if (!has_effect && suffices_counts(row, floor)) return Mark::kRedundant;
  if ((has_effect || is_predicted) && is_close(row)) return Mark::kNone;
  if (has_effect && is_predicted) return same_sign(row) ? Mark::kFactor : Mark::kReversed;
  if (has_effect) return Mark::kMissed;
  return is_predicted ? Mark::kPhantom : Mark::kSmall;
}

std::string factor_text(double factor) {
  return std::abs(factor) < 10 ? fmt::format("{:.2g}", factor) : fmt::format("{:.0f}", factor);
}

std::string mark_text(const EffectRow& row, double floor) {
  const Mark mark = mark_of(row, floor);
  return mark == Mark::kFactor ? "x" + factor_text(factor_of(row)) : enum_name(mark);
}

double rank_correlation(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() < 3) return std::nan("");
  const std::vector<double> a = ranks(x), b = ranks(y);
  const double middle = double(x.size() - 1) / 2;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - middle) * (b[i] - middle);
    aa += (a[i] - middle) * (a[i] - middle);
    bb += (b[i] - middle) * (b[i] - middle);
  }
  return ab / std::sqrt(aa * bb);
}

Agreement agreement(const std::vector<EffectRow>& rows, const std::vector<double>& predicted,
                    double smallest) {
  const double largest = largest_effect(rows);
  std::vector<double> effects, factors;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    effects.push_back(rows[i].effect.mean);
    if (std::abs(effects[i]) >= floor_of(rows[i], largest, smallest))
      factors.push_back(predicted[i] / effects[i]);
  }
  std::ranges::sort(factors);
  const std::size_t n = factors.size();
  const double factor = n == 0 ? std::nan("") : (factors[(n - 1) / 2] + factors[n / 2]) / 2;
  return {rank_correlation(predicted, effects), factor, std::ssize(factors)};
}

}  // namespace heed::nn
