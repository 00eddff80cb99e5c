// Runs check_vjp on the cases of tools/peers/gradcheckers.py. As autograd/check/README.md states,
// it rejects every wrong gradient, accepts every correct one, and detects an error in the 11th
// digit.
#include "tests/support/catch.h"
#include "tools/peers/check_case.h"

using heed::peers::GradientCase;

namespace {

bool passes(const GradientCase& c, std::uint64_t seed) {
  return heed::peers::check_case(c, {.seed = seed}).ok();
}

}  // namespace

TEST_CASE("with every seed, the correct gradients pass and the wrong gradients fail") {
  int wrong = 0;
  for (const GradientCase& c : heed::peers::gradient_cases()) {
    wrong += c.wrong;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(c.op, c.what, seed);
      CHECK(passes(c, seed) == !c.wrong);
    }
  }
  CHECK(wrong == 20);
  CHECK(heed::peers::gradient_cases().size() == 25);
}

TEST_CASE("a relative error of 1e-11 of the gradient is detected") {
  for (int d = 1; d <= 11; ++d) {
    CAPTURE(d);
    CHECK(!passes(heed::peers::resolution_cases()[std::size_t(d - 1)], 1));
  }
}
