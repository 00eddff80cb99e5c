#include "autograd/check/differences.h"

#include <algorithm>
#include <cmath>

namespace heed::autograd {
namespace {

using Values = std::vector<double>;

// Steps that difference() tries in this order, as fractions of its argument `scale`. The first step
// is best if the rounding error is 1e-16 of the value. Larger steps are better if f is noisy.
// Smaller steps are better if f is strongly curved or has a kink nearby. In double, a step below
// kTiny is tried if the smallest step before it was best, or if no step before it had a finite
// result without a kink. This happens, for example, beside a pole or an edge of the domain of f.
constexpr double kSteps[] = {0x1p-9, 0x1p-13, 0x1p-5, 0x1p-17, 0x1p-2, 0x1p-25, 0x1p-33};
constexpr double kTiny = 0x1p-20;
constexpr double kGoodEnough = 0x1p-33;  // stop at this fraction of the terms: ten digits

// Returns the extrapolated difference at step h. `middle` is the value f(0).
Difference at_step(const Line& f, std::span<const double> v, std::span<const double> noise,
                   const Values& middle, double h) {
  const Values near_left = f(-h / 2), near_right = f(h / 2), left = f(-h), right = f(h),
               far_left = f(-2 * h), far_right = f(2 * h);
  Difference d;
  d.step = h;
  double bend = 0, near_bend = 0, all_noise = 0;
  for (std::size_t o = 0; o < v.size(); ++o) {
    const double inner = near_right[o] - near_left[o], outer = right[o] - left[o],
                 outermost = far_right[o] - far_left[o];
    const double coarse = (8 * outer - outermost) / (12 * h), fine = (8 * inner - outer) / (6 * h);
    const double extrapolated = (16 * fine - coarse) / 15, weight = std::abs(v[o]);
    d.value += v[o] * extrapolated;
    d.terms += weight * std::abs(extrapolated);
    d.error += weight * std::abs(fine - coarse);
    bend += weight * std::abs(right[o] + left[o] - 2 * middle[o]) / h;
    near_bend += weight * std::abs(near_right[o] + near_left[o] - 2 * middle[o]) / (h / 2);
    all_noise += weight * noise[o] / h;
  }
  d.error += 4 * all_noise;  // the absolute weights of the six points add up to 3.3 / h
  // The jump is the right slope minus the left slope. If f is smooth, the jump halves when the step
  // is halved.
  d.jump = near_bend;
  d.jump_noise = 64 * all_noise;
  d.kink = d.jump > 0.75 * bend && d.jump > d.jump_noise;
  return d;
}

// Returns true if a is better than b. A finite result without a kink is best, then a finite result
// with a kink, then a result that is not finite. Between two results of one of these kinds, the
// smaller error is better.
bool better(const Difference& a, const Difference& b) {
  const auto rank = [](const Difference& d) { return !std::isfinite(d.error) ? 2 : int(d.kink); };
  return rank(a) != rank(b) ? rank(a) < rank(b) : a.error < b.error;
}

// Returns true if d shows no kink only because its noise is at least
// as large as the jump of the kink that another step found.
bool hides_kink(const Difference& d, const Difference& kinked) {
  return kinked.kink && !d.kink && d.jump_noise >= kinked.jump;
}

// Returns true if the results of two steps are equal within their errors. Beside a kink, the coarse
// and the fine difference of one step can be equal by accident. The estimated error is then too
// small, and the result disagrees with the result of another step. Also returns true if a has a
// kink or is not finite.
bool agree(const Difference& a, const Difference& b) {
  return a.kink || !std::isfinite(a.error) || std::abs(a.value - b.value) <= a.error + b.error;
}

}  // namespace

std::vector<double> measure_noise(const Line& f, double scale, double epsilon) {
  constexpr int kPoints = 7, kOrder = 4;
  // Root of the sum of the squared weights 1, -4, 6, -4, 1 of a fourth difference.
  constexpr double kGain = 8.366600265340756;
  std::vector<Values> table;
  for (int k = 0; k < kPoints; ++k) table.push_back(f((k - kPoints / 2) * scale * 0x1p-26));
  Values noise;
  for (std::size_t o = 0; o < table[0].size(); ++o)
    noise.push_back(epsilon * std::abs(table[kPoints / 2][o]));
  for (int order = 1; order <= kOrder; ++order)
    for (int k = 0; k < kPoints - order; ++k)
      for (std::size_t o = 0; o < noise.size(); ++o)
        table[std::size_t(k)][o] = table[std::size_t(k) + 1][o] - table[std::size_t(k)][o];
  for (int k = 0; k < kPoints - kOrder; ++k)
    for (std::size_t o = 0; o < noise.size(); ++o)
      noise[o] = std::max(noise[o], 2 * std::abs(table[std::size_t(k)][o]) / kGain);
  return noise;
}

Difference difference(const Line& f, std::span<const double> v, std::span<const double> noise,
                      double scale, bool single) {
  const Values middle = f(0);
  Difference best;  // its step is 0 until a result is finite
  best.error = HUGE_VAL;
  double smallest = HUGE_VAL;
  for (const double step : kSteps) {
    if (step < kTiny && (single || (!best.kink && best.step > smallest))) break;
    smallest = std::min(smallest, step * scale);
    const Difference d = at_step(f, v, noise, middle, step * scale);
    if (better(d, best) && agree(best, d) && !hides_kink(d, best)) best = d;
    if (!best.kink && best.error <= kGoodEnough * best.terms) break;
  }
  return best;
}

}  // namespace heed::autograd
