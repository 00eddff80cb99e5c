// Tests of the error of differences for functions whose error is known from theory.
#include "autograd/check/curve.h"

#include "autograd/ops/ops.h"
#include "tests/support/catch.h"

namespace heed::autograd {
namespace {

// Returns log2 of the factor by which the error grows when the step is halved, averaged over the
// steps from `first` to `last`.
double slope(const std::vector<StepError>& errors, double StepError::*error, std::size_t first,
             std::size_t last) {
  return std::log2(errors[last].*error / errors[first].*error) / double(last - first);
}

}  // namespace

TEST_CASE("the error falls as h^2 with two points, as h^6 with six, and rises as 1/h", "[curve]") {
  const Tensor x = from_data(std::vector{0.5, -1.25, 2.0}, {3});
  const auto errors = step_errors([](Args t) { return exp(t[0]); }, std::vector{x});
  REQUIRE(errors.size() == 34);
  for (std::size_t k = 0; k < errors.size(); ++k)
    CHECK(errors[k].step == std::ldexp(1.0, -int(k) - 1));
  CHECK(std::abs(slope(errors, &StepError::two_points, 2, 10) + 2) < 0.05);
  CHECK(std::abs(slope(errors, &StepError::six_points, 0, 3) + 6) < 0.3);
  CHECK(std::abs(slope(errors, &StepError::two_points, 20, 33) - 1) < 0.5);
  CHECK(errors[33].two_points > 1e-9);
}

TEST_CASE("differences of a parabola are exact up to rounding; a wrong gradient keeps its error",
          "[curve]") {
  const Tensor x = from_data(std::vector{0.5, -1.25, 2.0}, {3});
  for (const StepError& e : step_errors([](Args t) { return t[0] * t[0]; }, std::vector{x}))
    CHECK(e.two_points <= 1e-15 / e.step);
  // detach() removes half of the gradient, so the gradient is wrong.
  for (const StepError& e :
       step_errors([](Args t) { return t[0] * t[0].detach(); }, std::vector{x}))
    CHECK(e.two_points > 1e-3);
  for (const StepError& e : step_errors([](Args) { return zeros({2}, float64); }, std::vector{x}))
    CHECK(e.two_points == 0);
}

}  // namespace heed::autograd
