// The cases that tools/peers/gradcheckers.py gives to all checkers: heed finds every wrong
// gradient, refuses no right one, and sees 11 digits, as README says.
#include "tests/support/catch.h"
#include "tools/peers/check_case.h"

using heed::peers::GradientCase;

namespace {

bool passes(const GradientCase& c, std::uint64_t seed) {
  return heed::peers::check_case(c, {.seed = seed}).ok();
}

}  // namespace

TEST_CASE("of the peers' cases the right ones pass and the wrong ones do not, at any seed") {
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

TEST_CASE("an error of 1e-11 of the gradient is seen") {
  for (int d = 1; d <= 11; ++d) {
    CAPTURE(d);
    CHECK(!passes(heed::peers::resolution_cases()[std::size_t(d - 1)], 1));
  }
}
