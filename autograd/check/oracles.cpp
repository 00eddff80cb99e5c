#include "autograd/check/oracles.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine/engine.h"
#include "autograd/graph/graph.h"
#include "autograd/ops/ops.h"

namespace heed::autograd::oracles {
namespace {

// How far each entry may be moved: its own size, or that of its tensor if it is next to nothing.
Values scales(const Tensor& x) {
  Values sizes = x.to_vector<double>();
  double largest = 0;
  for (double& size : sizes) largest = std::max(largest, size = std::abs(size));
  for (double& size : sizes) size = largest == 0 ? 1 : std::max(size, largest / 64);
  return sizes;
}

Tensors zeros_like(Args xs) {
  Tensors zero;
  for (const Tensor& x : xs) zero.push_back(zeros(x.shape(), float64));
  return zero;
}

// Roundings in a sum of terms: the engine and dual numbers add them each in its own order.
constexpr double kRoundings = 0x1p10 * 0x1p-53;
// How far dual numbers move when the inputs move by an ulp: no gradient is known better than that.
double conditioning(const Point& p, const Direction& d, double value) {
  Generator random(1);
  double largest = 0;
  for (int k = 0; k < 4; ++k) {
    Tensors near;
    for (const Tensor& x : p.xs)
      near.push_back(x * (1.0 + to(randint(-1, 2, x.shape(), random), float64) * 0x1p-52));
    const Tensor tangent = jvp(p.f, near, d.tangents).tangent;
    largest = std::max(largest,
                       std::abs(dot(p.v.to_vector<double>(), tangent.to_vector<double>()) - value));
  }
  return largest;
}

}  // namespace

double dot(const Values& a, const Values& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

Tensor call(const DifferentiableFunction& f, Args xs) {
  const NoGrad guard;
  return f(xs);
}

std::vector<Tracked> call_tracked(const DifferentiableFunction& f, Args xs, Args tangents) {
  Tensors tracked;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const Values x = xs[i].to_vector<double>(), t = tangents[i].to_vector<double>();
    std::vector<Tracked> both;
    for (std::size_t k = 0; k < x.size(); ++k) both.emplace_back(x[k], t[k]);
    tracked.push_back(from_data(both, xs[i].shape()));
  }
  const GradMode recording(true);  // f may call grad()
  return tracked_values(f(tracked));
}

std::vector<Tracked> tracked_values(const Tensor& y) {
  if (y.dtype() == tracked64) return y.to_vector<Tracked>();
  const Values values = y.to_vector<double>();  // it does not depend on tracked inputs
  return {values.begin(), values.end()};
}

Direction one_entry(Args xs, std::size_t input, std::int64_t at) {
  Direction d{std::ptrdiff_t(input), at, zeros_like(xs)};
  d.tangents[input].mutable_data<double>()[at] = 1;
  d.scale = scales(xs[input])[std::size_t(at)];
  return d;
}

Direction all_entries(Args xs, Generator& random) {
  Direction d{-1, 0, {}};
  for (const Tensor& x : xs) {
    Tensor u = randn(x.shape(), float64, random);
    const Values sizes = scales(x);
    for (std::size_t j = 0; j < sizes.size(); ++j) u.mutable_data<double>()[j] *= sizes[j];
    d.tangents.push_back(u);
  }
  return d;
}

std::vector<std::pair<std::size_t, std::int64_t>> spread(Args xs, std::int64_t count,
                                                         Generator& random) {
  std::int64_t total = 0;
  for (const Tensor& x : xs) total += x.numel();
  const std::int64_t step = (total + count - 1) / std::max<std::int64_t>(count, 1);
  std::vector<std::pair<std::size_t, std::int64_t>> places;
  if (step == 0) return places;
  std::int64_t next = randint(0, step, {}, random).to_vector<std::int64_t>()[0], before = 0;
  for (std::size_t i = 0; i < xs.size(); before += xs[i].numel(), ++i)
    for (; next - before < xs[i].numel(); next += step) places.push_back({i, next - before});
  return places;
}

Line Point::line(const Direction& u) const {
  return [this, &u](double t) {
    if (t == 0) return value;
    Tensors moved = xs;
    for (std::size_t i = 0; i < xs.size(); ++i)
      if (u.input < 0 || u.input == std::ptrdiff_t(i)) moved[i] = xs[i] + u.tangents[i] * t;
    return call(f, moved).to_vector<double>();
  };
}

Tensors engine_gradients(const DifferentiableFunction& f, Args xs, const Tensor& v) {
  const GradMode recording(true);
  Tensors leaves;
  for (const Tensor& x : xs) leaves.push_back(x.detach().requires_grad_());
  const Tensor y = f(leaves);
  if (!y.requires_grad()) return zeros_like(xs);  // f does not depend on its inputs
  return grad(y, leaves, {.grad_output = v, .allow_unused = true});
}

const Point::DualAnswer& Point::dual(const Direction& d) const {
  const std::pair place(d.input, d.at);
  if (const auto known = answers.find(place); known != answers.end()) return known->second;
  DualAnswer answer;
  const Values cotangent = v.to_vector<double>();
  const std::vector<Tracked> y = call_tracked(f, xs, d.tangents);
  for (std::size_t o = 0; o < y.size(); ++o) {
    answer.derivative += cotangent[o] * y[o].number.tangent;
    answer.terms += std::abs(cotangent[o] * y[o].terms);
  }
  return answers[place] = answer;
}

GradientEntry engine_entry(const Direction& d, Args gradients) {
  GradientEntry entry;
  entry.input = d.input;
  if (d.input >= 0) {
    const Tensor& g = gradients[std::size_t(d.input)];
    const Dims at = unravel(d.at, g.shape());
    entry.at.assign(at.begin(), at.end());
    entry.engine = g.to_vector<double>()[std::size_t(d.at)];
  } else {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      entry.engine += dot(gradients[i].to_vector<double>(), d.tangents[i].to_vector<double>());
  }
  return entry;
}

bool ask(Oracle oracle, const Point& p, const Direction& d, bool use_dual, GradientEntry& entry) {
  if (oracle == Oracle::kDual || use_dual) {
    const Point::DualAnswer& dual = p.dual(d);
    entry.oracle = dual.derivative;
    entry.terms = dual.terms;
    entry.tolerance = kRoundings * entry.terms;
  }
  if (oracle == Oracle::kDual) {
    if (!(std::abs(entry.engine - entry.oracle) <= entry.tolerance))
      entry.tolerance += 4 * conditioning(p, d, entry.oracle);
    return false;
  }
  const Difference found = difference(p.line(d), p.v.to_vector<double>(), p.noise, d.scale);
  entry.oracle = found.value;
  entry.step = found.step;
  if (!use_dual) entry.terms = found.terms;
  entry.tolerance = kRoundings * entry.terms + 2 * found.error;
  return found.kink;
}

}  // namespace heed::autograd::oracles
