// Tests of check_vjp at points without a derivative: kinks, poles and overflow.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tests/support/vjp_pairs.h"

using namespace heed::autograd;
using namespace heed::autograd::testing;

namespace {

// Returns log|x| with its right gradient. A difference of two points on different sides of 0 has
// the wrong slope.
template <class T>
Pair<T> logarithms() {
  return {[](const Arrays<T>& x) {
            Arrays<T> y = x;
            for (T& e : y[0]) e = std::log(std::abs(e));
            return y;
          },
          [](const Arrays<T>& x, const Arrays<T>& v) {
            Arrays<T> g = v;
            for (std::size_t j = 0; j < g[0].size(); ++j) g[0][j] /= x[0][j];
            return g;
          }};
}

TEMPLATE_TEST_CASE("no step jumps over a singularity", "", float, double) {
  for (const double size : {3e-2, 1e-3, 2.68544e-5, 1e-5}) {
    CAPTURE(size);
    const Arrays<TestType> x = {{TestType(1), TestType(size), TestType(-2), TestType(-size)}};
    CHECK(check_pair(logarithms<TestType>(), x).ok());
  }
}

template <class T>
Arrays<T> relu_forward(const Arrays<T>& x) {
  Arrays<T> y = x;
  for (T& e : y[0]) e = std::max(e, T(0));
  return y;
}

// Checks relu with the gradient of the first entry multiplied by `factor`.
template <class T>
CheckReport check_relu(const Arrays<T>& x, T factor) {
  return check_vjp<T>(
      relu_forward<T>,
      [factor](const Arrays<T>& a, const Arrays<T>& v) {
        Arrays<T> g = v;
        for (std::size_t j = 0; j < g[0].size(); ++j)
          g[0][j] *= (a[0][j] > 0 ? T(1) : T(0)) * (j == 0 ? factor : T(1));
        return g;
      },
      x);
}

TEST_CASE("relu near its kink passes in either type, and its wrong gradient fails", "[kink]") {
  const auto check_near = [](auto zero) {
    using T = decltype(zero);
    for (const Arrays<T>& x :
         {Arrays<T>{{0}}, Arrays<T>{{0, 1, -1}}, Arrays<T>{{1, 0}}, Arrays<T>{{0, 100}},
          Arrays<T>{{T(2e-7), 1, -1}}, Arrays<T>{{T(-1e-7), 1, -1}}, Arrays<T>{{T(1e-30), 1, -1}},
          Arrays<T>{{T(1e-20), 1, -1}}}) {
      const CheckReport right = check_relu<T>(x, 1);
      CAPTURE(sizeof(T), x[0], right);
      CHECK(right.ok());
      if (right.worst().input == 0 && x[0][0] < 0) continue;  // the gradient is 0 with every factor
      for (const T factor : {T(1000), T(-1), T(0), T(5)}) {
        const CheckReport wrong = check_relu<T>(x, factor);
        CAPTURE(factor, wrong);
        CHECK((!wrong.ok() || (!wrong.moved.empty() && wrong.moved[0].to < 0)));
      }
    }
  };
  check_near(0.0);
  check_near(0.0F);
}

TEST_CASE("if forward overflows beside x, the message names forward") {
  const CheckReport report = check_vjp<double>(
      [](const Arrays<double>& x) { return x; },
      [](const Arrays<double>&, const Arrays<double>& v) { return v; }, {{1.7e308, 1}});
  CHECK(!report.ok());
  CHECK(message_contains(report, "forward is not finite at points near x"));
}

TEST_CASE("each of several inputs on a kink is moved") {
  const Pair<double> product = {[](const Arrays<double>& x) {
                                  double y = 1;
                                  for (const auto& input : x) y *= 1 + std::abs(input[0]);
                                  return Arrays<double>{{y}};
                                },
                                [](const Arrays<double>& x, const Arrays<double>& v) {
                                  double y = v[0][0];
                                  for (const auto& input : x) y *= 1 + std::abs(input[0]);
                                  Arrays<double> g;
                                  for (const auto& input : x)
                                    g.push_back({y / (input[0] > 0 ? 1 + input[0] : input[0] - 1)});
                                  return g;
                                }};
  const CheckReport all = check_pair(product, {{0}, {0}, {0}, {0}, {0}});
  CHECK(all.ok());
  CHECK(all.moved.size() == 5);
}

TEST_CASE("a function that is finite only at x fails") {
  const Pair<double> pointed = {
      [](const Arrays<double>& x) { return Arrays<double>{{x[0][0] == 1.5 ? 1 : std::nan("")}}; },
      [](const Arrays<double>&, const Arrays<double>& v) { return Arrays<double>{{0 * v[0][0]}}; }};
  CHECK(check_pair(pointed, {{1.5}}).verdict == Verdict::kWrong);
}

}  // namespace
