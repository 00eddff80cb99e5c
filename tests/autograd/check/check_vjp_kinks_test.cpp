// Tests of check_vjp at points without a derivative: kinks, poles and overflow.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <sstream>

#include "autograd/autograd.h"
#include "tests/support/vjp_pairs.h"

using namespace heed::autograd;
using namespace heed::autograd::testing;

namespace {

TEST_CASE("a right gradient is not refused beside a kink, at any distance") {
  const auto forward = [](const Arrays<double>& x) {
    return Arrays<double>{{std::max(x[0][0], x[0][1])}};
  };
  const auto backward = [](double factor) {
    return [factor](const Arrays<double>& x, const Arrays<double>& v) {
      const bool first = x[0][0] > x[0][1];
      return Arrays<double>{{factor * v[0][0] * first, factor * v[0][0] * !first}};
    };
  };
  for (int i = 0; i < (kSanitized ? 320 : 3200); ++i) {
    const double x = 3 * std::sin(i), gap = std::pow(10, -6.0 * i / 3200);
    CAPTURE(x, gap);
    CHECK(check_vjp<double>(forward, backward(1), {{x, x - gap}}).ok());
    if (i % 10 == 0)
      CHECK(check_vjp<double>(forward, backward(1.001), {{x, x - gap}}).verdict == Verdict::kWrong);
  }
  for (Index n = 3; n <= 16; ++n)
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(n, seed);
      CHECK(gradcheck([](Args t) { return max(t[0]); }, std::vector{full({n}, 0.7, float64)},
                      {.seed = seed})
                .ok());
    }
}

// Returns n numbers between -3 and 3; every `every`-th one is 0, on a kink of relu and abs.
std::vector<double> with_zeros(std::size_t n, std::size_t every) {
  std::vector<double> x;
  for (std::size_t k = 0; k < n; ++k)
    x.push_back(every > 0 && k % every == 0 ? 0 : 3 * std::sin(double(k * k + 1)));
  return x;
}

TEST_CASE("any number of entries may be on a kink, and a wrong entry is found among them") {
  const auto forward = [](const Arrays<double>& x) {
    Arrays<double> y = x;
    for (double& e : y[0]) e = std::abs(e);
    return y;
  };
  for (const std::size_t n : {64u, 256u, 1001u, 4000u})
    for (const std::size_t every : {0u, 100u, 10u, 2u, 1u}) {
      if (n > 256 && (kSanitized || every != (n == 4000 ? 10 : 1))) continue;  // to save time
      const std::vector<double> x = with_zeros(n, every);
      CAPTURE(n, every);
      const auto check = [&](std::size_t wrong) {
        const auto backward = [wrong](const Arrays<double>& a, const Arrays<double>& v) {
          Arrays<double> g = v;
          for (std::size_t k = 0; k < g[0].size(); ++k)
            g[0][k] *= std::copysign(k == wrong ? 1.01 : 1.0, a[0][k]) * (a[0][k] != 0);
          return g;
        };
        return check_vjp<double>(forward, backward, {x}, {.max_entries = 100});
      };
      const CheckReport right = check(n);
      CAPTURE(right);
      CHECK(right.ok());
      CHECK(std::ssize(right.moved) == std::ranges::count(x, 0.0));
      CHECK(right.checked() == Index(std::min<std::size_t>(n, 100)));
      for (const std::size_t wrong : {n / 2, n / 2 + 1}) {  // on a kink if `every` is 2, and not
        const CheckReport report = check(wrong);
        CHECK(report.verdict == Verdict::kWrong);
        CHECK(report.worst().at == Index(wrong));
      }
      CHECK(gradcheck([](Args t) { return relu(t[0]); }, std::vector{from_data(x, {std::ssize(x)})})
                .ok());
    }
}

// Returns relu summed over all entries, with the gradient of entry `wrong` multiplied by -1.
Pair<double> summed_relu(std::size_t wrong) {
  return {[](const Arrays<double>& x) {
            double sum = 0;
            for (const double e : x[0]) sum += std::max(e, 0.0);
            return Arrays<double>{{sum}};
          },
          [wrong](const Arrays<double>& x, const Arrays<double>& v) {
            Arrays<double> g = x;
            for (std::size_t k = 0; k < g[0].size(); ++k)
              g[0][k] = (x[0][k] > 0 ? v[0][0] : 0) * (k == wrong ? -1 : 1);
            return g;
          }};
}

TEST_CASE("kinks hide no wrong entry of a sum, or of an input among several") {
  if (skips(kSanitized, "takes minutes with a sanitizer")) return;
  Arrays<double> x = {with_zeros(6000, 20)};
  x[0][4001] = 1.3;
  CHECK(check_pair(summed_relu(6000), x, {.max_entries = 50}).ok());
  CHECK(check_pair(summed_relu(4001), x, {.max_entries = 50}).verdict == Verdict::kWrong);
  const auto maximum = [](const Arrays<double>& a) {
    Arrays<double> y = {a[0]};
    for (std::size_t k = 0; k < y[0].size(); ++k) y[0][k] = std::max(a[0][k], a[1][k]);
    return y;
  };
  const auto backward = [](std::size_t wrong) {
    return [wrong](const Arrays<double>& a, const Arrays<double>& v) {
      Arrays<double> g = {v[0], v[0]};
      for (std::size_t k = 0; k < v[0].size(); ++k) {
        g[0][k] *= a[0][k] > a[1][k] ? 1 : a[0][k] == a[1][k] ? 0.5 : 0;
        g[1][k] -= g[0][k];
        for (auto& gradient : g) gradient[k] *= k == wrong ? 1.01 : 1;
      }
      return g;
    };
  };
  x = {with_zeros(2000, 0), with_zeros(2000, 0)};  // each pair is a tie
  CHECK(check_vjp<double>(maximum, backward(2000), x, {.max_entries = 50}).ok());
  CHECK(check_vjp<double>(maximum, backward(1500), x, {.max_entries = 50}).verdict ==
        Verdict::kWrong);
}

TEST_CASE("entries that stay on a kink are counted, and if all do, nothing is proven") {
  // y[0] = |x[0] - c|, where c is x[0] of the last call of backward, so moving x[0] does not help.
  // The last output is sin(x[0]), which has no kink.
  const auto check = [](const std::vector<double>& x, double factor, double of_sine = 1) {
    double c = 0;
    const auto forward = [&](const Arrays<double>& a) {
      Arrays<double> y = a;
      for (double& e : y[0]) e *= e;
      y[0][0] = std::abs(a[0][0] - c);
      y[0].push_back(std::sin(a[0][0]));
      return y;
    };
    const auto backward = [&](const Arrays<double>& a, const Arrays<double>& v) {
      Arrays<double> g = a;
      for (std::size_t k = 0; k < g[0].size(); ++k) g[0][k] *= 2 * factor * v[0][k];
      g[0][0] = of_sine * std::cos(a[0][0]) * v[0].back(), c = a[0][0];
      return g;
    };
    return check_vjp<double>(forward, backward, {x});
  };
  std::ostringstream text;
  text << check({1, 2, 3}, 1);
  CAPTURE(text.str());
  CHECK(text.str().starts_with("right: "));
  CHECK(text.str().find("; 1 of 3 entries not compared: not differentiable there; ") < 400);
  CHECK(check({1, 2, 3}, 1.01).verdict == Verdict::kWrong);
  for (const double of_sine : {0.0, -1.0, 1.001})
    CHECK(check({1, 2, 3}, 1, of_sine).verdict == Verdict::kWrong);
  const CheckReport all = check({1}, 1);
  CHECK((all.verdict == Verdict::kVacuous && all.on_kink == 1 && all.checked() == 0));
  CHECK(message_contains(all, "input 0: all entries that were compared stay on a kink"));
}

TEMPLATE_TEST_CASE("at a kink, gradients between the two slopes are right, and others wrong", "",
                   float, double) {
  using T = TestType;
  const auto relu = [](const Arrays<T>& x) {
    Arrays<T> y = x;
    for (T& e : y[0]) e = std::max(e, T(0)) + e * e;
    return y;
  };
  const auto check = [&](T slope) {  // the derivative of max(x, 0) at 0
    const auto backward = [slope](const Arrays<T>& x, const Arrays<T>& v) {
      Arrays<T> g = v;
      for (std::size_t k = 0; k < x[0].size(); ++k)
        g[0][k] *= (x[0][k] == 0 ? slope : T(x[0][k] > 0)) + 2 * x[0][k];
      return g;
    };
    return check_vjp<T>(relu, backward, {{1, 0, -2, T(0.5)}});
  };
  for (const T slope : {T(0), T(0.3), T(0.5), T(1)}) {
    CAPTURE(slope, check(slope).message);
    CHECK(check(slope).ok());
  }
  for (const T slope : {T(2), T(1.4), T(-0.4), T(-1)}) {
    CAPTURE(slope);
    CHECK(check(slope).verdict == Verdict::kWrong);
    CHECK(message_contains(check(slope), "input 0 at [1] is on a kink: backward returns "));
  }
}

TEMPLATE_TEST_CASE("a gradient that is wrong on one side of a kink at x is found", "", float,
                   double) {
  using T = TestType;
  struct Case {
    std::string name;
    T at, left, right;  // the point x, and the derivatives to its left and its right
  };
  for (const Case& c : {Case{"relu", 0, 0, 1}, Case{"leaky relu", 0, T(0.01), 1},
                        Case{"abs", 0, -1, 1}, Case{"hinge", 1, -1, 0}})
    for (const std::size_t n : {1u, 2u, 17u})
      for (const int wrong : {0, -1, 1}) {  // none, the left or the right side
        CAPTURE(c.name, n, wrong);
        const auto slope = [&](T x, bool given) {
          const int side = x > c.at ? 1 : -1;
          return (side > 0 ? c.right : c.left) + T(given && side == wrong);
        };
        const auto forward = [&](const Arrays<T>& x) {
          Arrays<T> y = x;
          for (T& e : y[0]) e = (e - c.at) * slope(e, false);
          return y;
        };
        const auto backward = [&](const Arrays<T>& x, const Arrays<T>& v) {
          Arrays<T> g = v;
          for (std::size_t k = 0; k < n; ++k) g[0][k] *= slope(x[0][k], true);
          return g;
        };
        const CheckReport r = check_vjp<T>(forward, backward, {std::vector<T>(n, c.at)});
        CHECK(r.verdict == (wrong == 0 ? Verdict::kRight : Verdict::kWrong));
      }
}

TEST_CASE("if forward overflows beside x, the message names forward") {
  const CheckReport report = check_vjp<double>(
      [](const Arrays<double>& x) { return x; },
      [](const Arrays<double>&, const Arrays<double>& v) { return v; }, {{1.7e308, 1}});
  CHECK(!report.ok());
  CHECK(message_contains(report, "forward is not finite at points near x"));
}

TEST_CASE("a function that is finite only at x fails") {
  const Pair<double> pointed = {
      [](const Arrays<double>& x) { return Arrays<double>{{x[0][0] == 1.5 ? 1 : std::nan("")}}; },
      [](const Arrays<double>&, const Arrays<double>& v) { return Arrays<double>{{0 * v[0][0]}}; }};
  CHECK(check_pair(pointed, {{1.5}}).verdict == Verdict::kWrong);
}

}  // namespace
