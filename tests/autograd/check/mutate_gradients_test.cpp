// Tests of MutateGradients: its scopes nest, and an exception inside a mutation does not end the
// scope.
#include "autograd/autograd.h"
#include "autograd/check/mutants.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

double slope_of_exp() {
  const GradMode recording(true);  // recording is off during a backward pass
  const Tensor x = zeros({}, float64).requires_grad_();
  return grad(exp(x), x).item();
}
MutateGradients::Function times(double factor) {
  return [factor](const Op&, std::size_t, const Tensor& g, const Shape&) { return g * factor; };
}

TEST_CASE("an inner mutation replaces the outer one until its scope ends") {
  const MutateGradients outer(times(2));
  CHECK(slope_of_exp() == 2);
  {
    const MutateGradients inner(times(3));
    CHECK(slope_of_exp() == 3);
  }
  CHECK(slope_of_exp() == 2);
}

TEST_CASE("a mutation that throws stays active until its scope ends") {
  {
    int calls = 0;
    const MutateGradients once(
        [&](const Op&, std::size_t, const Tensor& g, const Shape&) -> Tensor {
          if (++calls == 1) throw std::runtime_error("once");
          return g * 5.0;
        });
    CHECK_THROWS_WITH(slope_of_exp(), "once");
    CHECK(slope_of_exp() == 5);
  }
  CHECK(slope_of_exp() == 1);
}

TEST_CASE("ops inside a mutation are not mutated, except by a mutation created there") {
  const MutateGradients outer([](const Op&, std::size_t, const Tensor& g, const Shape&) {
    CHECK(slope_of_exp() == 1);
    const MutateGradients inner(times(7));
    return g * slope_of_exp();
  });
  CHECK(slope_of_exp() == 7);
  CHECK(slope_of_exp() == 7);
}

}  // namespace
