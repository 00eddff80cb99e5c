#include "autograd/check/differences.h"

#include <algorithm>
#include <cmath>

#include "autograd/tensor/random.h"

namespace heed::autograd {
namespace {

using Values = std::vector<double>;

// Steps that are tried in this order, as fractions of `scale`. The first step is best if the
// rounding error is 1e-16 of the value. Larger steps are better if f is noisy. Smaller steps are
// better if f is strongly curved or varies fast, or has a kink, a pole or an edge of its domain
// nearby. In float, the widest step is often the best one, and small steps are below the rounding
// of x. A step is left out if the noise alone gives it an error that is larger than the smallest
// error so far.
constexpr double kSteps[] = {0x1p-9, 0x1p-13, 0x1p-5, 0x1p-17, 0x1p-2, 0x1p-25, 0x1p-33, 0x1p-41};
constexpr double kFloatSteps[] = {0x1p-2, 0x1p-9, 0x1p-13, 0x1p-5, 0x1p-17};
constexpr double kFirst = 0x1p-9;        // the widest step at which kinks are found
constexpr double kGoodEnough = 0x1p-33;  // stop if the error is this fraction of the value

// The values of all outputs at 0 and at the three distances of a step on both sides.
struct Points {
  double t[3];
  Values middle, left[3], right[3];

  Points(const Line& f, const Steps::Step& step, double scale) : middle(f(0)) {
    for (int i = 0; i < 3; ++i)
      t[i] = scale * step.distances[i], left[i] = f(-t[i]), right[i] = f(t[i]);
  }
};

// Returns the value at 0 of the straight line through (a, at_a) and (b, at_b).
double at_zero(double a, double at_a, double b, double at_b) {
  return (b * at_a - a * at_b) / (b - a);
}

// Returns the extrapolated difference of output o.
Difference at_step(const Points& p, std::size_t o, double noise, double epsilon) {
  const double h = p.t[1], m = p.middle[o];
  // An output that nearly cancels at t = 0 is rounded more coarsely at the other points.
  noise = std::max(noise, epsilon * std::max(std::abs(p.left[2][o]), std::abs(p.right[2][o])));
  Difference d;
  d.step = h, d.error = least_error(noise, h), d.jump_noise = 64 * noise / h;
  double slopes[3], jumps[3], bends[3], squares[3];
  for (int i = 0; i < 3; ++i) {
    const double l = p.left[i][o], r = p.right[i][o], t = p.t[i];
    d.moves |= !(l == m && r == m);
    slopes[i] = (r - l) / (2 * t), jumps[i] = (r + l - 2 * m) / t;
    bends[i] = jumps[i] / t, squares[i] = t * t;
  }
  if (!d.moves) return d;  // most outputs, if a single entry moves
  // If f is smooth, slopes and bends (second derivatives) are polynomials in the squares.
  const auto near = [&](const double(&y)[3]) {
    return at_zero(squares[0], y[0], squares[1], y[1]);
  };
  const auto far = [&](const double(&y)[3]) { return at_zero(squares[1], y[1], squares[2], y[2]); };
  const double fine = near(slopes), coarse = far(slopes);
  d.value = at_zero(squares[0], fine, squares[2], coarse);
  // If a kink is between h/2 and 2h, the fine and the coarse difference can be equal by accident.
  // The two bends are then not equal. Noise causes up to 26 noise / h of their distance times h.
  d.error += std::abs(fine - coarse) +
             std::max(0.0, h * std::abs(near(bends) - far(bends)) - 26 * noise / h);
  // The jump is the right slope minus the left slope. If f is smooth, it is proportional to t.
  d.jump = std::abs(jumps[0]);
  d.kink = d.jump > (1 + p.t[0] / h) / 2 * std::abs(jumps[1]) && d.jump > d.jump_noise;
  // A kink beside t = 0 moves the fine difference.
  if (d.kink)
    d.reach = 1.01 / 2 * std::abs(at_zero(p.t[0], jumps[0], h, jumps[1])) +
              2 * std::abs(fine - coarse) + d.jump_noise / 4;
  return d;
}

// Returns true if d shows no kink only because its noise, or twice its error, is at least as large
// as the jump of the kink that another step found. The error is large if the step is large.
bool hides_kink(const Difference& d, const Difference& kinked) {
  return kinked.kink && !d.kink && std::max(d.jump_noise, 2 * d.error) >= kinked.jump;
}

// Replaces `best` by d, the result of another step, if d is better. A finite result without a kink
// is best, then a finite result with a kink, then a result that is not finite. Between two results
// of one of these kinds, the smaller error is better. If the two contradict each other, the wider
// step has jumped over something, and the smaller step is better. But if f does not move at the
// smaller step, rounding may hide the movement: then both derivatives are possible.
void choose(Difference& best, const Difference& d) {
  const auto rank = [](const Difference& e) { return !std::isfinite(e.error) ? 2 : int(e.kink); };
  const Difference wide = d.step < best.step ? best : d, fine = d.step < best.step ? d : best;
  if (hides_kink(d, best) || hides_kink(best, d)) {
    if (d.kink) best = d;
  } else if (rank(d) != rank(best)) {
    if (rank(d) < rank(best)) best = d;
  } else if (d.kink) {
    const bool is_steady = std::max(d.jump, best.jump) <= 2 * std::min(d.jump, best.jump);
    const double reach = std::abs(d.value - best.value) + std::max(d.reach, best.reach);
    best = !is_steady ? fine : d.error < best.error ? d : best;
    best.is_steady = is_steady;
    if (is_steady) best.reach = reach;
  } else if (std::abs(d.value - best.value) <= 2 * (d.error + best.error)) {
    if (d.error < best.error) best = d;
  } else if (fine.moves) {
    best = fine;
  } else {
    best = wide, best.error = std::max(best.error, std::abs(best.value));
  }
}

// Returns for each output the difference of the best step. Tries the steps in order until the error
// is small enough. A step that would hide a kink is not used.
std::vector<Difference> best_differences(const Line& f, std::span<const double> noise, double scale,
                                         const Steps& steps) {
  std::vector<Difference> best(noise.size());
  for (Difference& d : best) d.error = HUGE_VAL, d.moves = true;  // until a result is finite
  // True if an error is larger than noise explains, at the smallest step so far. Then f varies
  // faster than all steps so far, and the small errors of wider steps are accidents.
  std::vector<bool> varies(noise.size()), is_fast(noise.size());
  double smallest = HUGE_VAL;
  double largest = 0;  // largest |value| of the results so far
  const auto needs = [&](std::size_t o, double step) {
    const Difference& d = best[o];
    // No result of this step could be better.
    if (!d.kink && !varies[o] && d.error <= least_error(noise[o], step * scale)) return false;
    // An output that does not move has the derivative 0. Its error must be small beside the others.
    return d.kink || !(d.error <= kGoodEnough * (d.moves ? std::abs(d.value) : largest));
  };
  for (const Steps::Step& step : steps.all) {
    std::size_t first = 0;  // of the outputs that need this step
    while (first < best.size() && !needs(first, step.size)) ++first;
    if (first == best.size()) continue;
    const Points points(f, step, scale);
    for (std::size_t o = first; o < best.size(); ++o) {
      if (!needs(o, step.size)) continue;
      const Difference d = at_step(points, o, noise[o], steps.roundoff());
      if (!d.kink || step.size <= kFirst) choose(best[o], d);
      if (step.size < smallest) {
        varies[o] = step.size <= kFirst && d.error > d.jump_noise / 2;
        is_fast[o] = varies[o] && !(d.error <= std::abs(d.value) / 4);
      }
      if (std::isfinite(best[o].error)) largest = std::max(largest, std::abs(best[o].value));
    }
    smallest = std::min(smallest, step.size);
  }
  for (std::size_t o = 0; o < best.size(); ++o) {
    Difference& d = best[o];
    d.is_fast = is_fast[o] && !d.is_steady && smallest == steps.all.back().size;
    d.kink |= d.is_fast;
    if (!d.is_steady) d.reach = HUGE_VAL;
  }
  return best;
}

// The noise of each output, measured with points at one distance from each other.
struct Noise {
  Values noise, least;  // least: the assumed lower limit
  Values moved;         // the largest distance of the values at two neighboring points
};
Noise noise_at(const Line& f, double spacing, double epsilon) {
  // With fewer points, all differences of one among thousands of outputs may be small by accident.
  constexpr int kPoints = 15, kOrder = 4;
  // Root of the sum of the squared weights 1, -4, 6, -4, 1 of a fourth difference.
  constexpr double kGain = 8.366600265340756;
  Noise n;
  Values last[kOrder];  // the last difference of each order below kOrder, from order 0
  for (int k = 0; k < kPoints; ++k) {
    Values next = f((k - kPoints / 2) * spacing);
    n.noise.resize(next.size()), n.moved.resize(next.size());
    if (k == kPoints / 2)
      for (const double y : next) n.least.push_back(epsilon * std::abs(y));
    for (int order = 0; order < std::min(k, kOrder); ++order) {
      last[order].swap(next);
      for (std::size_t o = 0; o < n.noise.size(); ++o) {
        next[o] = last[order][o] - next[o];
        if (order == 0) n.moved[o] = std::max(n.moved[o], std::abs(next[o]));
      }
    }
    if (k < kOrder)
      last[k] = std::move(next);
    else
      for (std::size_t o = 0; o < n.noise.size(); ++o) n.noise[o] = std::hypot(n.noise[o], next[o]);
  }
  // Twice the root mean square of the noise.
  const double factor = 2 / kGain / std::sqrt(double(kPoints - kOrder));
  for (std::size_t o = 0; o < n.noise.size(); ++o)
    n.noise[o] = std::max(n.least[o], factor * n.noise[o]);
  return n;
}

}  // namespace

double least_error(double noise, double h) {
  return 4 * noise / h;  // the absolute weights of the six points add up to 3.5 / h at most
}

std::vector<double> measure_noise(const Line& f, double scale, double epsilon) {
  constexpr double kSpacing = 0x1p-26;
  Noise found = noise_at(f, kSpacing * scale, epsilon);
  const bool single = epsilon > 0x1p-30;
  const double finer = single ? 0x1p-4 : 0x1p-9, smooth = single ? 0x1p-3 : 0x1p-8;
  double factor = finer;
  for (int i = 0; i < (single ? 3 : 2); ++i, factor *= finer) {
    // Noise that is as large as the movement of f between two points, and larger than rounding.
    const auto is_doubtful = [&](std::size_t o) {
      return found.noise[o] > std::max(0x1p-8 * found.moved[o], 64 * found.least[o]);
    };
    std::vector<std::size_t> doubtful;
    for (std::size_t o = 0; o < found.noise.size(); ++o)
      if (is_doubtful(o)) doubtful.push_back(o);
    if (doubtful.empty()) break;
    // If forward subtracts larger numbers, it moves in jumps.
    for (const double t : {-1.0, 1.0}) {
      const Values far = f(t);
      for (std::size_t o = 0; o < far.size(); ++o)
        if (std::isfinite(far[o]))
          found.least[o] = std::max(found.least[o], epsilon * std::abs(far[o]));
    }
    const Noise next = noise_at(f, factor * kSpacing * scale, epsilon);
    for (const std::size_t o : doubtful)
      if (is_doubtful(o) && next.noise[o] < smooth * next.moved[o])
        found.noise[o] = std::min(found.noise[o], next.noise[o]), found.moved[o] = next.moved[o];
  }
  return found.noise;
}

std::vector<double> measure_jumps(const Line& f) {
  Values jumps, last;
  for (int power = -16; power <= -7; ++power) {
    const Values noise = noise_at(f, std::ldexp(1, power), 0).noise;
    jumps.resize(noise.size()), last.resize(noise.size());
    for (std::size_t o = 0; o < noise.size(); ++o)
      if (noise[o] <= 8 * last[o]) jumps[o] = std::max(jumps[o], noise[o]);
    last = noise;
  }
  return jumps;
}

Steps::Steps(std::uint64_t seed, bool in_float) : single(in_float) {
  Generator random(seed);
  const double unit = single ? 0x1p-20 : 0x1p-48;
  for (const double h : single ? std::span<const double>(kFloatSteps) : kSteps) {
    Step& step = all.emplace_back(Step{h, {h / 2, h, 2 * h}});
    for (double& t : step.distances)
      t = std::round(t * (1 + (random.uniform_double() - 0.5) / 8) / unit) * unit;
  }
}

Steps Steps::first() const {
  Steps one = *this;
  std::erase_if(one.all, [](const Step& s) { return s.size != kFirst; });
  return one;
}

std::vector<Difference> differences(const Line& f, std::span<const double> noise, double scale,
                                    const Steps& steps, bool repeated) {
  std::vector<Difference> best = best_differences(f, noise, scale, steps);
  // The estimated error of a single step can be small by accident.
  for (const double factor : {0.75, 0.625}) {
    if (!repeated) break;
    const std::vector<Difference> found = best_differences(f, noise, factor * scale, steps);
    for (std::size_t o = 0; o < best.size(); ++o) {
      best[o].error = std::max(best[o].error, 2 * std::abs(found[o].value - best[o].value));
      best[o].moves |= found[o].moves;
    }
  }
  return best;
}

}  // namespace heed::autograd
