#include "autograd/check/point.h"

#include <algorithm>
#include <numeric>

#include "autograd/check/call_checks.h"

namespace heed::autograd {
namespace {

// Assumed rounding error of a given derivative (jvp, or by backward2) along a direction, as a
// multiple of the noise of forward.
constexpr double kGivenNoise = 0x1p11;

// Returns the smallest power of two above |x|, or a power of two if x is infinite. x is not 0.
double power_of_two_above(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1, exponent);
}

}  // namespace

double largest_of(std::span<const double> values) {
  double largest = 0;
  for (const double e : values) largest = std::max(largest, std::abs(e));
  return largest;
}

Values times(Values a, double factor) {
  for (double& e : a) e *= factor;
  return a;
}

Values random_cotangent(std::size_t n, Generator& random) {
  Values v;
  for (std::size_t o = 0; o < n; ++o) {
    const double size = 0.5 + double(random.next_u32() % 1024) / 1024;
    v.push_back(random.next_u32() % 2 == 0 ? -size : size);
  }
  return v;
}

double Direction::dot(const Values& gradient) const {
  double total = 0;
  for (const auto& [k, by] : moves) total += gradient[k] * (by / unit());
  return total;
}

Values Direction::from(Values x, double t) const {
  for (const auto& [k, by] : moves) x[k] += t * by;
  return x;
}

Point::Point(CheckedFunction function, std::uint64_t seed)
    : f(std::move(function)), random(seed), steps(seed, f.single()) {
  for (const Shape& shape : f.inputs) {
    const std::size_t begin = starts.back(), end = begin + std::size_t(shape.numel());
    double squares = 0;
    for (std::size_t k = begin; k < end; ++k) squares += f.x[k] * f.x[k];
    const double size = std::sqrt(squares / double(end - begin));
    typical.push_back(size > 0 ? power_of_two_above(size) : 1);
    starts.push_back(end);
  }
}

CheckedEntry Point::entry_at(std::size_t k) const {
  const auto input = std::size_t(std::ranges::upper_bound(starts, k) - starts.begin()) - 1;
  const auto at = Index(k - starts[input]);
  const Dims index = unravel(at, f.inputs[input]);
  return {.input = input, .at = at, .index = {index.begin(), index.end()}};
}

std::string Point::output_name(std::size_t o) const {
  const std::string& kind = f.names.output;
  return f.outputs.size() == 1 ? kind + " " + to_text(unravel(Index(o), f.outputs[0]))
                               : element_name(kind.c_str(), f.outputs, o);
}

double Point::own_scale(std::size_t k) const {
  return f.x[k] == 0 ? typical[entry_at(k).input] : power_of_two_above(f.x[k]);
}

Along Point::along_entry(std::size_t k, double by) const {
  return std::make_shared<const Direction>(
      Direction{entry_at(k), {{k, by == 0 ? own_scale(k) : by}}});
}

Direction Point::random_direction(std::optional<std::size_t> input) {
  Direction all{{.input = input.value_or(0)}};
  const std::size_t begin = input ? starts[*input] : 0,
                    end = input ? starts[*input + 1] : f.x.size();
  all.moves.reserve(end - begin);
  for (std::size_t k = begin; k < end; ++k)
    all.moves.emplace_back(k, random.next_u32() % 2 == 0 ? -own_scale(k) : own_scale(k));
  return all;
}

Values Point::shifted(const Direction& along, double t) const {
  Values moved = along.from(f.x, t);
  if (f.single())
    for (double& e : moved) e = double(float(e));
  return moved;
}

Line Point::line_along(const Direction& along) const {
  // The value at x is kept, because each step of differences uses it.
  return [this, &along, at_x = std::make_shared<Values>()](double t) {
    if (t != 0) return f.forward(shifted(along, t));
    if (at_x->empty()) *at_x = f.forward(f.x);
    return *at_x;
  };
}

std::vector<Difference> Point::differences_along(const Direction& along, bool repeated) const {
  return differences(line_along(along), noise, 1, steps, repeated || f.single());
}

OutputSlopes Point::slopes(Oracle oracle, const Along& along, bool repeated) const {
  ExactDerivative truth;
  if (f.exact) truth = f.exact(f.x, along->from(Values(f.x.size(), 0.0), 1));
  OutputSlopes s = {along, {}, truth.terms, truth.derivative};
  if (oracle == Oracle::kDual) {
    for (std::size_t o = 0; o < s.exact.size(); ++o)
      s.of.push_back({.value = s.exact[o],
                      .error = f.exact_is_given ? kGivenNoise * noise[o] : 0,
                      .moves = true});
    return s;
  }
  s.of = differences_along(*along, repeated);
  if (f.exact && !f.exact_is_given) return s;
  s.terms.clear();
  for (const Difference& d : s.of) s.terms.push_back(std::abs(d.value));
  return s;
}

Values Point::gradient_for(const Values& v) const {
  return f.backward ? f.backward(f.x, v) : Values();
}

double Point::given(const OutputSlopes& slopes, const Values& v, const Values& gradient) const {
  if (f.backward) return slopes.along->dot(gradient);
  return std::inner_product(v.begin(), v.end(), slopes.exact.begin(), 0.0) / slopes.along->unit();
}

Values Point::noise_of_forward() {
  const Direction all = random_direction();
  return measure_noise(line_along(all), f.noise_spread(), f.roundoff);
}

Values Point::noise_of_backward(const Values& v) {
  const Direction all = random_direction();
  const Line line = [&](double t) { return f.backward(shifted(all, t), v); };
  return times(measure_noise(line, f.noise_spread(), f.roundoff), 8);
}

Values Point::noise_of_still(const std::function<Values(const Values& x)>& g) {
  constexpr int kDirections = 8;
  const Values at_x = g(f.x);
  Values largest(at_x.size());
  std::vector<bool> is_moving(at_x.size());
  for (int i = 0; i < kDirections; ++i) {
    const Direction all = random_direction();
    for (const double t : {-1.0, 1.0}) {
      const Values near = g(shifted(all, t * f.noise_spread() * 0x1p-23)), far = g(shifted(all, t));
      for (std::size_t o = 0; o < at_x.size(); ++o) {
        if (near[o] != at_x[o]) is_moving[o] = true;
        if (std::isfinite(far[o])) largest[o] = std::max(largest[o], std::abs(far[o]));
      }
    }
  }
  const Direction all = random_direction();
  const Values jumps = measure_jumps([&](double t) { return g(shifted(all, t)); });
  for (std::size_t o = 0; o < at_x.size(); ++o) {
    const double most = f.roundoff * largest[o];
    largest[o] = !is_moving[o] ? most : jumps[o] <= 16 * most ? jumps[o] : 0;
  }
  return largest;
}

}  // namespace heed::autograd
