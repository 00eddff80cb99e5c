#include "autograd/check/curve.h"

#include <cmath>

#include "autograd/check/tensor_function.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {

std::vector<StepError> step_errors(const DifferentiableFunction& f, Args inputs,
                                   std::uint64_t seed) {
  constexpr int kSteps = 34;
  Generator random(seed);
  const CheckedFunction c = checked_function(f, inputs, true);
  const Values v = randn(c.outputs[0], float64, random).to_vector<double>();
  Values tangent;
  std::vector<Moves::Pair> moves;
  for (const Tensor& x : inputs)
    for (const double u : rand(x.shape(), float64, random).to_vector<double>())
      tangent.push_back(c.x[tangent.size()] * (2.0 * u - 1.0));
  for (std::size_t k = 0; k < tangent.size(); ++k) moves.emplace_back(k, tangent[k]);
  const Direction along{{}, std::move(moves)};
  CheckedEntry entry;
  entry.given = along.dot(c.backward(c.x, v));
  const ExactDerivative exact = c.exact(c.x, tangent);
  for (std::size_t o = 0; o < v.size(); ++o) entry.terms += std::abs(v[o] * exact.terms[o]);
  // Returns (<v, f>(x + h u) - <v, f>(x - h u)) / 2h, where u is the tangent.
  const auto two_point_difference = [&](double h) {
    const Values right = c.forward(along.from(c.x, h)), left = c.forward(along.from(c.x, -h));
    double change = 0;
    for (std::size_t o = 0; o < v.size(); ++o) change += v[o] * (right[o] - left[o]);
    return change / (2 * h);
  };
  Values differences;  // two-point differences for the steps 1, 1/2, ... 2^-(kSteps + 1)
  for (int k = 0; k <= kSteps + 1; ++k)
    differences.push_back(two_point_difference(std::ldexp(1.0, -k)));
  const auto error = [&](double difference) {
    entry.expected = difference;
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
