// Tests of dual numbers where op_gradients_test, which uses them as an oracle of every op, does not
// use them.
#include "autograd/base/dual.h"

#include "autograd/tensor/create.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

void check(Dual got, double value, double tangent) {
  CAPTURE(value, tangent);
  CHECK(got.value == Approx(value).epsilon(1e-14).margin(1e-300));
  CHECK(got.tangent == Approx(tangent).epsilon(1e-14).margin(1e-300));
}

TEST_CASE("dual numbers may be multiplied and divided by themselves") {
  const Dual a{3, 2};
  Dual d = a;
  check(d *= d, 9, 12);
  d = a;
  const Dual& itself = d;
  check(d /= itself, 1, 0);
}

TEST_CASE("abs and pow of dual numbers at 0, and with an exponent that has a tangent") {
  for (const double tangent : {1.0, -2.5, 0.0}) {
    const Dual zero{0, tangent}, two{2, tangent}, three{3, tangent};
    check(abs(zero), 0, 0);
    check(pow(zero, 1), 0, tangent);
    check(pow(zero, 0), 1, 0);
    check(pow(Dual(2), three), 8, 8 * std::log(2.0) * tangent);
    check(pow(two, two), 4, 4 * (std::log(2.0) + 1) * tangent);
  }
}

TEST_CASE("a constant has tangent 0 also where the derivative is infinite") {
  check(sqrt(Dual(0)), 0, 0);
  check(log(Dual(0)), -kInf, 0);
  CHECK(sqrt(Dual(0, 1)).tangent == kInf);
  CHECK(isfinite(Dual(1, 2)));
  CHECK(!isfinite(Dual(1, kInf)));
  CHECK(!isfinite(Dual(std::nan(""), 0)));
}

}  // namespace
