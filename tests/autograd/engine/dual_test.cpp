// Compares arithmetic and functions of dual numbers with derivatives in closed form.
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

TEST_CASE("dual arithmetic follows the sum, product and quotient rules") {
  const Dual a{3, 2}, b{-4, 5};
  check(a + b, -1, 7);
  check(a - b, 7, -3);
  check(a * b, -12, 2 * -4 + 3 * 5);
  check(a / b, -0.75, (2 * -4 - 3 * 5) / 16.);
  check(-a, -3, -2);
  check(2.0 * a + 1.0, 7, 4);
  check(1.0 / a, 1 / 3., -2 / 9.);
  Dual c = a;
  c += b;
  c -= a;
  c *= a;
  c /= a;
  check(c, -4, 5);
  check(a * a, 9, 12);  // both operands are the same object
  Dual d = a;
  check(d *= d, 9, 12);
  d = a;
  const Dual& itself = d;
  check(d /= itself, 1, 0);
}

TEST_CASE("dual comparisons compare only the values") {
  const Dual a{1, 5}, b{1, -5}, c{2, 0};
  CHECK(a == b);
  CHECK(!(a != b));
  CHECK((a < c && c > a && a <= b && a >= b));
  CHECK(real(a) == 1);
  CHECK(real(2.5f) == 2.5f);
  CHECK(std::numeric_limits<Dual>::infinity() == kInf);
}

TEST_CASE("dual functions have the function's value and its derivative times the tangent") {
  struct Case {
    const char* name;
    std::function<Dual(Dual)> f;
    double x, value, derivative;
  };
  const double e = std::exp(0.7), t = std::tanh(0.7), pi = std::acos(-1.0);
  const std::vector<Case> cases = {
      {"exp", [](Dual x) { return exp(x); }, 0.7, e, e},
      {"log", [](Dual x) { return log(x); }, 0.7, std::log(0.7), 1 / 0.7},
      {"sqrt", [](Dual x) { return sqrt(x); }, 0.49, 0.7, 0.5 / 0.7},
      {"tanh", [](Dual x) { return tanh(x); }, 0.7, t, 1 - t * t},
      {"erf", [](Dual x) { return erf(x); }, 0.7, std::erf(0.7),
       2 / std::sqrt(pi) * std::exp(-0.49)},
      {"abs of a positive", [](Dual x) { return abs(x); }, 0.7, 0.7, 1},
      {"abs of a negative", [](Dual x) { return abs(x); }, -0.7, 0.7, -1},
      {"abs of 0", [](Dual x) { return abs(x); }, 0, 0, 0},
      {"pow", [](Dual x) { return pow(x, 3); }, -2, -8, 12},
      {"pow -1", [](Dual x) { return pow(x, -1); }, 4, 0.25, -1 / 16.},
      {"pow 1 at 0", [](Dual x) { return pow(x, 1); }, 0, 0, 1},
      {"pow 0 at 0", [](Dual x) { return pow(x, 0); }, 0, 1, 0},
      {"pow of a base", [](Dual x) { return pow(Dual(2), x); }, 3, 8, 8 * std::log(2.0)},
      {"x^x", [](Dual x) { return pow(x, x); }, 2, 4, 4 * (std::log(2.0) + 1)},
      {"composition", [](Dual x) { return exp(x * x) / x; }, 1.5, std::exp(2.25) / 1.5,
       std::exp(2.25) * (2 - 1 / 2.25)}};
  for (const Case& c : cases)
    for (const double tangent : {1.0, -2.5, 0.0}) {
      CAPTURE(c.name, tangent);
      check(c.f({c.x, tangent}), c.value, c.derivative * tangent);
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
