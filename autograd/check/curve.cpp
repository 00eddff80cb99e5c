#include "autograd/check/curve.h"

#include <cmath>

#include "autograd/check/oracles.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

using namespace oracles;

// (<v, f>(x + h u) - <v, f>(x - h u)) / 2h
double two_point_difference(const Line& f, const Values& v, double h) {
  Values change = f(h);
  const Values left = f(-h);
  for (std::size_t o = 0; o < v.size(); ++o) change[o] -= left[o];
  return dot(v, change) / (2 * h);
}

}  // namespace

std::vector<StepError> step_errors(const DifferentiableFunction& f, Args inputs,
                                   std::uint64_t seed) {
  constexpr int kSteps = 34;
  Generator random(seed);
  const Tensor y = call(f, inputs);
  const Point point{.f = f,
                    .xs = Tensors(inputs.begin(), inputs.end()),
                    .v = randn(y.shape(), float64, random),
                    .value = y.to_vector<double>()};
  Direction along{.input = -1, .tangents = {}};
  for (const Tensor& x : inputs)
    along.tangents.push_back(x * (2.0 * rand(x.shape(), float64, random) - 1.0));
  GradientEntry entry = engine_entry(along, engine_gradients(f, inputs, point.v));
  entry.terms = point.dual(along).terms;
  const Values v = point.v.to_vector<double>();
  std::vector<double> differences;  // at steps 1, 1/2, ... 2^-(kSteps + 1)
  for (int k = 0; k <= kSteps + 1; ++k)
    differences.push_back(two_point_difference(point.line(along), v, std::ldexp(1.0, -k)));
  const auto error = [&](double difference) {
    entry.oracle = difference;
    return entry.error();
  };
  std::vector<StepError> errors;
  for (std::size_t k = 1; k <= kSteps; ++k) {
    const double wide = differences[k - 1], here = differences[k], narrow = differences[k + 1];
    const double coarse = (4 * here - wide) / 3, fine = (4 * narrow - here) / 3;
    errors.push_back({std::ldexp(1.0, -int(k)), error(here), error((16 * fine - coarse) / 15)});
  }
  return errors;
}

}  // namespace heed::autograd
