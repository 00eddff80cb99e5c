// The cases that tools/peers/gradcheckers.py gives to all checkers: heed finds every wrong
// gradient, refuses no right one, and sees 11 digits, as README says.
#include "autograd/check/check_vjp.h"
#include "tests/support/catch.h"
#include "tools/peers/gradchecker_cases.h"

using namespace heed::autograd;
using heed::peers::GradientCase;

namespace {

template <class T, class U>
Arrays<T> converted(const Arrays<U>& arrays) {
  Arrays<T> out;
  for (const auto& array : arrays) out.emplace_back(array.begin(), array.end());
  return out;
}

bool passes(const GradientCase& c, std::uint64_t seed) {
  if (!c.single) return check_vjp(c.forward, c.backward, c.x, {.seed = seed}).ok();
  using A = Arrays<float>;
  const auto forward = [&](const A& x) {
    return converted<float>(c.forward(converted<double>(x)));
  };
  const auto backward = [&](const A& x, const A& v) {
    return converted<float>(c.backward(converted<double>(x), converted<double>(v)));
  };
  return check_vjp(forward, backward, converted<float>(c.x), {.seed = seed}).ok();
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
