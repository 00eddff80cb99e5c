#include "nn/lab/study/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace heed::lab {

namespace {

Agreement agreement(const std::vector<Evidence>& rows, const Judgement& j,
                    double Evidence::*prediction) {
  Agreement a;
  std::vector<double> factors;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double factor = rows[i].*prediction / rows[i].effect.mean;
    if (!j.counts[i] || std::isnan(factor)) continue;
    factors.push_back(factor);
    a.wrong_sign += factor < 0;
    a.close += factor >= 1.0 / 3 && factor <= 3;
  }
  std::ranges::sort(factors);
  const std::size_t n = factors.size();
  if (n > 0) a.factor = (factors[(n - 1) / 2] + factors[n / 2]) / 2;
  return a;
}

}  // namespace

double Judgement::floor_of(const Effect& effect) const {
  const double error = effect.standard_error;  // NaN for one sequence
  return std::max({smallest, 0.05 * largest, std::isnan(error) ? 0 : 2 * error});
}

Judgement judge(const std::vector<Evidence>& rows, double smallest) {
  Judgement j{.smallest = smallest, .order = std::vector<std::size_t>(rows.size())};
  for (const Evidence& e : rows) j.largest = std::max(j.largest, std::abs(e.effect.mean));
  for (const Evidence& e : rows) {
    j.counts.push_back(std::abs(e.effect.mean) >= j.floor_of(e.effect));
    j.counted += j.counts.back();
  }
  std::iota(j.order.begin(), j.order.end(), std::size_t(0));
  std::ranges::stable_sort(j.order, std::greater<>(),
                           [&](std::size_t i) { return std::abs(rows[i].effect.mean); });
  j.path = agreement(rows, j, &Evidence::path);
  j.gradient = agreement(rows, j, &Evidence::gradient);
  return j;
}

std::string factor_text(double factor) {
  return std::abs(factor) < 10 ? fmt::format("{:.2g}", factor) : fmt::format("{:.0f}", factor);
}

}  // namespace heed::lab
