#include "autograd/check/differences.h"

#include <algorithm>
#include <cmath>

namespace heed::autograd {
namespace {

using Values = std::vector<double>;

// Steps that are tried in this order, as fractions of `scale`. The first step is best if the
// rounding error is 1e-16 of the value. Larger steps are better if f is noisy. Smaller steps are
// better if f is strongly curved or has a kink nearby. In double, a step below kTiny is tried if
// the smallest step before it was best, or if no step before it had a finite result without a kink.
// This happens, for example, beside a pole or an edge of the domain of f.
constexpr double kSteps[] = {0x1p-9, 0x1p-13, 0x1p-5, 0x1p-17, 0x1p-2, 0x1p-25, 0x1p-33};
constexpr double kTiny = 0x1p-20;
// In float, the widest step is tried before all others, because it is often the best one. A step is
// left out if the noise alone gives it an error that is larger than the smallest error so far.
constexpr double kWidest = 0x1p-2;
constexpr double kGoodEnough = 0x1p-33;  // stop if the error is this fraction of the value

// The values of all outputs at 0, +-h/2, +-h and +-2h.
struct Points {
  double h;
  Values middle, near_left, near_right, left, right, far_left, far_right;

  Points(const Line& f, double step)
      : h(step),
        middle(f(0)),
        near_left(f(-h / 2)),
        near_right(f(h / 2)),
        left(f(-h)),
        right(f(h)),
        far_left(f(-2 * h)),
        far_right(f(2 * h)) {}
};

// Returns the part of a difference's error that noise causes at step h. The absolute weights of the
// six points add up to 3.3 / h.
double least_error(double noise, double h) { return 4 * noise / h; }

// Returns the extrapolated difference of output o.
Difference at_step(const Points& p, std::size_t o, double noise, double epsilon) {
  const double h = p.h, m = p.middle[o];
  // An output that nearly cancels at t = 0 is rounded more coarsely at the other points.
  noise = std::max(noise, epsilon * std::max(std::abs(p.far_left[o]), std::abs(p.far_right[o])));
  Difference d;
  d.step = h;
  for (const Values* y :
       {&p.near_left, &p.near_right, &p.left, &p.right, &p.far_left, &p.far_right})
    d.moves |= !((*y)[o] == m);
  if (!d.moves) {  // most outputs, if a single entry moves
    d.error = least_error(noise, h), d.jump_noise = 64 * noise / h;
    return d;
  }
  const double inner = p.near_right[o] - p.near_left[o], outer = p.right[o] - p.left[o],
               outermost = p.far_right[o] - p.far_left[o];
  const double near_bend = p.near_right[o] + p.near_left[o] - 2 * m,
               bend = p.right[o] + p.left[o] - 2 * m,
               far_bend = p.far_right[o] + p.far_left[o] - 2 * m;
  const double coarse = (8 * outer - outermost) / (12 * h), fine = (8 * inner - outer) / (6 * h);
  // If a kink is between h/2 and 2h, the fine and the coarse difference can be equal by accident.
  // Two estimates of the second derivative, from the inner and from the outer points, are then not
  // equal. `uneven` is h times their distance; noise causes up to 22 noise / h of it.
  const double uneven = std::abs(64 * near_bend - 20 * bend + far_bend) / (12 * h);
  d.value = (16 * fine - coarse) / 15;
  d.error =
      std::abs(fine - coarse) + std::max(0.0, uneven - 24 * noise / h) + least_error(noise, h);
  // The jump is the right slope minus the left slope. If f is smooth, the jump halves when the step
  // is halved.
  d.jump = std::abs(near_bend) / (h / 2);
  d.jump_noise = 64 * noise / h;
  d.kink = d.jump > 0.75 * std::abs(bend) / h && d.jump > d.jump_noise;
  // Curvature adds a part to the jump that is proportional to the step. This part cancels in
  // 4 * near_bend - bend. A kink beside t = 0 moves the fine difference.
  if (d.kink)
    d.reach = 1.01 * std::abs(4 * near_bend - bend) / (2 * h) + 2 * std::abs(fine - coarse) +
              d.jump_noise / 4;
  return d;
}

// Returns true if a is better than b. A finite result without a kink is best, then a finite result
// with a kink, then a result that is not finite. Between two results of one of these kinds, the
// smaller error is better.
bool better(const Difference& a, const Difference& b) {
  const auto rank = [](const Difference& d) { return !std::isfinite(d.error) ? 2 : int(d.kink); };
  return rank(a) != rank(b) ? rank(a) < rank(b) : a.error < b.error;
}

// Returns true if d shows no kink only because its noise, or twice its error, is at least as large
// as the jump of the kink that another step found. The error is large if the step is large.
bool hides_kink(const Difference& d, const Difference& kinked) {
  return kinked.kink && !d.kink && std::max(d.jump_noise, 2 * d.error) >= kinked.jump;
}

}  // namespace

std::vector<double> measure_noise(const Line& f, double scale, double epsilon) {
  // With fewer points, all differences of one among thousands of outputs may be small by accident.
  constexpr int kPoints = 15, kOrder = 4;
  // Root of the sum of the squared weights 1, -4, 6, -4, 1 of a fourth difference.
  constexpr double kGain = 8.366600265340756;
  Values noise, least;
  Values last[kOrder];  // the last difference of each order below kOrder, from order 0
  for (int k = 0; k < kPoints; ++k) {
    Values next = f((k - kPoints / 2) * scale * 0x1p-26);
    noise.resize(next.size());
    if (k == kPoints / 2)
      for (const double y : next) least.push_back(epsilon * std::abs(y));
    for (int order = 0; order < std::min(k, kOrder); ++order) {
      last[order].swap(next);
      for (std::size_t o = 0; o < noise.size(); ++o) next[o] = last[order][o] - next[o];
    }
    if (k < kOrder)
      last[k] = std::move(next);
    else
      for (std::size_t o = 0; o < noise.size(); ++o) noise[o] = std::hypot(noise[o], next[o]);
  }
  // Twice the root mean square of the noise.
  const double factor = 2 / kGain / std::sqrt(double(kPoints - kOrder));
  for (std::size_t o = 0; o < noise.size(); ++o) noise[o] = std::max(least[o], factor * noise[o]);
  return noise;
}

std::vector<Difference> differences_at(const Line& f, std::span<const double> noise, double step,
                                       bool single) {
  const Points points(f, step);
  const double epsilon = single ? 0x1p-24 : 0x1p-53;
  std::vector<Difference> found;
  for (std::size_t o = 0; o < noise.size(); ++o)
    found.push_back(at_step(points, o, noise[o], epsilon));
  return found;
}

namespace {

// Returns for each output the difference with the smallest error. Tries the steps in order until
// the error is small enough. A step that would hide a kink is not used.
std::vector<Difference> best_differences(const Line& f, std::span<const double> noise, double scale,
                                         bool single) {
  std::vector<Difference> best(noise.size());  // a step is 0 until a result is finite
  for (Difference& d : best) d.error = HUGE_VAL;
  std::vector<bool> tried(noise.size());  // true if the widest step gave a result without a kink
  double smallest = HUGE_VAL;
  double largest = 0;  // largest |value| of the results so far
  const auto needs = [&](std::size_t o, double step) {
    const Difference& d = best[o];
    // No result of this step could be better.
    if ((step == kWidest && tried[o]) ||
        (!d.kink && d.error <= least_error(noise[o], step * scale)))
      return false;
    if (step < kTiny && (single || (!d.kink && d.step > smallest))) return false;
    // An output that does not move has the derivative 0. Its error must be small beside the others.
    return d.kink || !(d.error <= kGoodEnough * (d.moves ? std::abs(d.value) : largest));
  };
  const double epsilon = single ? 0x1p-24 : 0x1p-53;
  if (single) {
    const Points points(f, kWidest * scale);
    for (std::size_t o = 0; o < best.size(); ++o)
      if (const Difference d = at_step(points, o, noise[o], epsilon);
          !d.kink && std::isfinite(d.error))
        best[o] = d, tried[o] = true;
  }
  for (const double step : kSteps) {
    std::size_t first = 0;  // of the outputs that need this step
    while (first < best.size() && !needs(first, step)) ++first;
    if (first == best.size()) continue;
    const Points points(f, step * scale);
    for (std::size_t o = first; o < best.size(); ++o) {
      if (!needs(o, step)) continue;
      const Difference d = at_step(points, o, noise[o], epsilon);
      const bool moves = best[o].moves || d.moves;
      // The widest step, tried before the first one, must not hide a kink either.
      const bool takes = (better(d, best[o]) && !hides_kink(d, best[o])) ||
                         (step == kSteps[0] && hides_kink(best[o], d));
      // A coarse step can find a far smaller jump than a fine step. Gradients in both ranges pass.
      const bool joins = d.kink && best[o].kink && (takes || step <= kSteps[0]);
      const double reach = std::abs(d.value - best[o].value) + std::max(d.reach, best[o].reach);
      if (takes) best[o] = d;
      if (joins && std::isfinite(reach)) best[o].reach = reach;
      best[o].moves = moves;
      if (std::isfinite(best[o].error)) largest = std::max(largest, std::abs(best[o].value));
    }
    smallest = std::min(smallest, step * scale);
  }
  return best;
}

}  // namespace

std::vector<Difference> differences(const Line& f, std::span<const double> noise, double scale,
                                    bool single) {
  // In float, the estimated error of a single step can be small by accident. In double, the first
  // step is usually exact enough. Only the values of other steps are kept, to save memory.
  std::vector<Values> others;
  std::vector<bool> moves(noise.size());
  for (const double factor : {0.75, 0.625}) {
    if (!single) break;
    const std::vector<Difference> found = best_differences(f, noise, factor * scale, single);
    others.emplace_back().reserve(found.size());
    for (std::size_t o = 0; o < found.size(); ++o) {
      others.back().push_back(found[o].value);
      moves[o] = moves[o] || found[o].moves;
    }
  }
  std::vector<Difference> best = best_differences(f, noise, scale, single);
  for (std::size_t o = 0; o < best.size(); ++o) {
    for (const Values& other : others)
      best[o].error = std::max(best[o].error, 2 * std::abs(other[o] - best[o].value));
    best[o].moves |= moves[o];
  }
  return best;
}

}  // namespace heed::autograd
