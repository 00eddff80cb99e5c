// The error of differences against their step, where mathematics says what it is.
#include "autograd/check/curve.h"

#include "autograd/ops/ops.h"
#include "tests/support/catch.h"

namespace heed::autograd {
namespace {

// log2 of how an error changes from one step to half of it, on average over these steps.
double slope(const std::vector<StepError>& errors, double StepError::*error, std::size_t first,
             std::size_t last) {
  return std::log2(errors[last].*error / errors[first].*error) / double(last - first);
}

}  // namespace

TEST_CASE("two points lose with h^2, six with h^6, both to rounding with 1/h", "[curve]") {
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

TEST_CASE("differences of a parabola are exact but for rounding; a wrong gradient keeps its error",
          "[curve]") {
  const Tensor x = from_data(std::vector{0.5, -1.25, 2.0}, {3});
  for (const StepError& e : step_errors([](Args t) { return t[0] * t[0]; }, std::vector{x}))
    CHECK(e.two_points <= 1e-15 / e.step);
  // Half of the gradient is lost to detach.
  for (const StepError& e :
       step_errors([](Args t) { return t[0] * t[0].detach(); }, std::vector{x}))
    CHECK(e.two_points > 1e-3);
  for (const StepError& e : step_errors([](Args) { return zeros({2}, float64); }, std::vector{x}))
    CHECK(e.two_points == 0);
}

}  // namespace heed::autograd
