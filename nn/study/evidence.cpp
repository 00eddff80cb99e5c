#include "nn/study/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace heed::nn {

namespace {

// Returns the larger of |effect| and |suffices|.
double size_of(const Evidence& e) {
  return std::max(std::abs(e.effect.mean), e.suffices ? std::abs(e.suffices->mean) : 0);
}

// Returns whether |e| is at least the floor and two of its standard errors.
bool is_at_least(const Effect& e, double floor) {
  return std::abs(e.mean) >= floor && !(std::abs(e.mean) < 2 * e.standard_error);
}

Mark mark_of(const Judgement::Row& row, double predicted) {
  if (std::isinf(row.floor)) return Mark::kNone;
  if (!row.counts && row.suffices_counts) return Mark::kRedundant;
  const bool is_predicted = std::abs(predicted) >= row.floor,
             is_close = row.factor >= 1.0 / 3 && row.factor <= 3;
  if ((row.counts || is_predicted) && is_close) return Mark::kNone;
  if (row.counts && is_predicted) return row.factor > 0 ? Mark::kFactor : Mark::kReversed;
  if (row.counts) return Mark::kMissed;
  return is_predicted ? Mark::kPhantom : Mark::kSmall;
}

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

Agreement agreement(std::string_view name, const std::vector<Evidence>& rows, const Judgement& j,
                    std::size_t compared) {
  std::vector<double> effects, predicted, factors;
  for (std::size_t i = 0; i < compared; ++i)
    for (const Prediction& p : rows[i].predictions) {
      if (p.name != name) continue;
      effects.push_back(rows[i].effect.mean), predicted.push_back(p.effect.mean);
      if (j.rows[i].counts) factors.push_back(predicted.back() / effects.back());
    }
  std::ranges::sort(factors);
  const std::size_t n = factors.size();
  const double factor = n == 0 ? std::nan("") : (factors[(n - 1) / 2] + factors[n / 2]) / 2;
  return {name, rank_correlation(predicted, effects), factor, std::ssize(factors)};
}

}  // namespace

bool about_equal(const Evidence& a, const Evidence& b) {
  // Returns the change of each sequence, times the sign of the mean change.
  const auto sizes = [](const Evidence& e) {
    const Effect& larger =
        e.suffices && std::abs(e.suffices->mean) > std::abs(e.effect.mean) ? *e.suffices : e.effect;
    std::vector<double> changes = larger.changes;
    for (double& x : changes) x *= std::copysign(1, larger.mean);
    return changes;
  };
  std::vector<double> difference = sizes(a);
  const std::vector<double> other = sizes(b);
  if (difference.size() < 2 || difference.size() != other.size()) return false;
  for (std::size_t i = 0; i < other.size(); ++i) difference[i] -= other[i];
  const Effect e = effect_of(difference);
  return std::abs(e.mean) <= 2 * e.standard_error;
}

double smallest_effect(const Objective& objective) { return objective.is_linear() ? 0.05 : 0.01; }

std::string factor_text(double factor) {
  return std::abs(factor) < 10 ? fmt::format("{:.2g}", factor) : fmt::format("{:.0f}", factor);
}

std::string mark_text(const Judgement::Row& row) {
  return row.mark == Mark::kFactor ? "x" + factor_text(row.factor) : enum_name(row.mark);
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

double Judgement::floor_of(const Effect& effect) const {
  const double error = effect.standard_error;  // NaN for one sequence
  return std::max({smallest, 0.05 * largest, std::isnan(error) ? 0 : 2 * error});
}

Judgement judge(const std::vector<Evidence>& rows, double smallest, std::size_t compared) {
  compared = std::min(compared, rows.size());
  Judgement j{smallest, 0, {}, {}, {}};
  for (std::size_t i = 0; i < compared; ++i) j.largest = std::max(j.largest, size_of(rows[i]));
  for (const Evidence& e : rows) {
    Judgement::Row& row = j.rows.emplace_back();
    row.floor = j.floor_of(e.effect);
    row.counts = std::abs(e.effect.mean) >= row.floor;
    row.suffices_counts = e.suffices && is_at_least(*e.suffices, row.floor);
    row.factor = e.predicted() / e.effect.mean;
    row.mark = e.predictions.empty() ? Mark::kNone : mark_of(row, e.predicted());
    j.order.push_back(j.order.size());
  }
  std::ranges::stable_sort(j.order, std::greater<>(),
                           [&](std::size_t i) { return size_of(rows[i]); });
  for (const Prediction& p : compared == 0 ? std::vector<Prediction>() : rows[0].predictions)
    j.agreement.push_back(agreement(p.name, rows, j, compared));
  return j;
}

}  // namespace heed::nn
