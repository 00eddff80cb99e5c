// Tests of check_vjp with functions whose scale differs from that of x: they vary fast, their
// output is rounded like far larger numbers, or they have an error of their own.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "autograd/autograd.h"
#include "autograd/check/narrow_float.h"
#include "tests/support/vjp_pairs.h"

using namespace heed::autograd;
using namespace heed::autograd::testing;

namespace {

constexpr double kPi = std::numbers::pi;

using Function = std::function<double(double)>;

// A function of each element of x, its derivative, and a wrong derivative (default: 1.001 times the
// right one).
struct Case {
  std::string name;
  std::vector<double> x;
  Function f, right, wrong = {};
  Verdict verdict = Verdict::kRight;
};

// a x^2 + b x + sin(w x)
Case wave(const std::string& name, const std::vector<double>& x, double a, double b, double w) {
  return {name, x, [=](double t) { return a * t * t + b * t + std::sin(w * t); },
          [=](double t) { return 2 * a * t + b + w * std::cos(w * t); },
          [=](double t) { return 2 * a * t + b; }};
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return std::log(1 + std::exp(x)); }

template <class T>
CheckReport check_slope(const Case& c, const Function& slope, std::uint64_t seed) {
  const auto forward = [&](const Arrays<T>& x) {
    Arrays<T> y = x;
    for (T& e : y[0]) e = T(c.f(double(e)));
    return y;
  };
  const auto backward = [&](const Arrays<T>& x, const Arrays<T>& v) {
    Arrays<T> g = v;
    for (std::size_t k = 0; k < x[0].size(); ++k) g[0][k] *= T(slope(double(x[0][k])));
    return g;
  };
  return check_pair<T>({forward, backward}, {{c.x.begin(), c.x.end()}}, {.seed = seed});
}

template <class T>
void check_both(const Case& c) {
  const Function wrong = c.wrong ? c.wrong : [&](double x) { return 1.001 * c.right(x); };
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(c.name, seed);
    const CheckReport right = check_slope<T>(c, c.right, seed);
    CHECK((right.verdict == c.verdict && right.moved.empty()));
    CHECK((c.verdict == Verdict::kRight) == (right.checked() > 0));
    CHECK(check_slope<T>(c, wrong, seed).verdict != Verdict::kRight);
  }
}

TEST_CASE("functions that vary fast, or that rounding hides, get the right verdict") {
  const auto twice = [](double x) { return 2 * sigmoid_of(x); };
  const Case singularity = {"no step may jump over 0",
                            {1, 3e-2, -1e-3, 2.68544e-5, -2, -1e-5},
                            [](double x) { return std::log(std::abs(x)); },
                            [](double x) { return 1 / x; },
                            [](double x) { return 1.1 / x; }};
  const Case cases[] = {
      wave("an alias at whole numbers", {50.3}, 0, 1, 2 * kPi),
      wave("an alias at fractions", {0.3, -0.7, 0.9}, 1, 0, 512 * kPi),
      wave("2^15 periods", {0.3, -0.7, 0.9}, 1, 0, 0x1p16 * kPi),
      wave("1e4 radians", {1e4}, 0, 0, 1),
      {"a pole",
       {0.9, 1 - 1e-3, 1 - 1e-5, 1 - 1e-6},
       [](double x) { return 1 / (1 - x); },
       [](double x) { return 1 / std::pow(1 - x, 2); }},
      {"a wrong derivative that is noise",
       {1, 2, 3},
       [](double x) { return x * x; },
       [](double x) { return 2 * x; },
       [](double x) { return 2 * x * std::sin(1e12 * x); }},
      singularity,
      {"a step of width 1e-6",
       {1 + 3e-7},
       [](double x) { return std::tanh(1e6 * (x - 1)); },
       [](double x) { return 1e6 / std::pow(std::cosh(1e6 * (x - 1)), 2); },
       [](double) { return 0.0; }},
      {"log(1 + exp(-40)) is 0", {-40}, softplus, sigmoid_of, twice, Verdict::kVacuous},
      {"a hidden entry beside another", {-40, 1}, softplus, sigmoid_of, twice},
      {"1 - sigmoid(35) is 3 roundings",
       {35},
       [](double x) { return 1 - sigmoid_of(x); },
       [](double x) { return -sigmoid_of(x) * sigmoid_of(-x); },
       [](double) { return 1.0; },
       Verdict::kVacuous},
  };
  for (const Case& c : cases) check_both<double>(c);
  check_both<float>(singularity);
  check_both<float>({"a constant",
                     {0.1, 0.2, -0.5},
                     [](double x) { return float(x) + 1e6F; },
                     [](double) { return 1; },
                     [](double) { return 0; },
                     Verdict::kVacuous});
  // In float, a step can seem exact by accident.
  std::vector<double> entries;
  for (int k = 0; k < 500; ++k) entries.push_back(float(7 * std::sin(k)));
  check_both<float>({"500 entries", entries,
                     [](double t) { return std::tanh(t) * std::exp(-t * t / 8); },
                     [](double t) {
                       const double y = std::tanh(t);
                       return (1 - y * y - y * t / 4) * std::exp(-t * t / 8);
                     }});
  const auto in_float = [](double x) { return std::log(1 + std::exp(float(x))); };
  check_both<float>({"in float", {-20}, in_float, sigmoid_of, twice, Verdict::kVacuous});
  // gradcheck also uses dual numbers, which are exact.
  const std::vector<Tensor> logits = {from_data(std::vector{40.0, 0.0}, {1, 2})};
  const Tensor target = from_data(std::vector<Index>{0}, {1});
  CHECK(gradcheck([](Args t) { return 1.0 - sigmoid(t[0]); }, logits).ok());
  CHECK(gradcheck([&](Args t) { return cross_entropy(t[0], target); }, logits).ok());
}

TEMPLATE_TEST_CASE("no gradient of a function that changes only in jumps can be checked", "", float,
                   double) {
  const std::vector<double> x = {0.3, 1.2, -0.7};
  const Case round = {"round", x, [](double t) { return std::round(t); }, [](double) { return 0; }};
  for (const double slope : {0, 1})
    CHECK(check_slope<TestType>(
              round, [=](double) { return slope; }, 1)
              .verdict == Verdict::kVacuous);
  // Backward rounds dy to float16, so it is not linear.
  const auto in_float16 = [](double t) { return double(Float16(t)); };
  const auto forward = [&](const Arrays<double>& a) {
    Arrays<double> y = {{1}, a[1]};
    for (double& e : y[1]) e = in_float16(std::sin(e));
    y[0][0] = a[0][0] * a[0][0];
    return y;
  };
  const auto backward = [&](const Arrays<double>& a, const Arrays<double>& v) {
    Arrays<double> g = {{2 * a[0][0] * v[0][0]}, v[1]};
    for (std::size_t k = 0; k < x.size(); ++k) g[1][k] = std::cos(x[k]) * in_float16(v[1][k]);
    return g;
  };
  const CheckReport report = check_pair<double>({forward, backward}, {{0.5}, x});
  CHECK((report.verdict == Verdict::kVacuous && report.diagnosis.kind.empty()));
}

TEMPLATE_TEST_CASE("three equal numbers have no derivative in a sort, and its gradient is right",
                   "", float, double) {
  using T = TestType;
  const auto sorted = [](const Arrays<T>& x) {
    Arrays<T> y = x;
    std::ranges::sort(y[0]);
    return y;
  };
  const auto check = [&](T factor) {
    const auto backward = [factor](const Arrays<T>& x, const Arrays<T>& v) {
      std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5};
      std::ranges::stable_sort(order, {}, [&](std::size_t k) { return x[0][k]; });
      Arrays<T> g = v;
      for (std::size_t o = 0; o < order.size(); ++o) g[0][order[o]] = factor * v[0][o];
      return g;
    };
    return check_pair<T>({sorted, backward}, {{2, 1, 2, 5, 2, 3}}).verdict;
  };
  CHECK(check(1) == Verdict::kRight);
  CHECK(check(T(1.01)) == Verdict::kWrong);
}

TEST_CASE("the error of an iterative forward is an option") {
  const auto solve = [](double x, double tolerance) {
    double y = 0, before = 1;
    while (std::abs(y - before) >= tolerance) before = y, y = 0.5 * std::cos(y) + 0.3 * x;
    return y;
  };
  // The gradient is right times `factor`, and larger by up to `bend` if v is large.
  const auto check = [&](double tolerance, double forward_error, double factor = 1,
                         double bend = 0) {
    const auto forward = [=](const Arrays<double>& x) {
      return Arrays<double>{{solve(x[0][0], tolerance)}};
    };
    const auto backward = [=](const Arrays<double>& x, const Arrays<double>& v) {
      const double y = solve(x[0][0], 1e-15);
      const double bent = factor * (1 + bend * std::min(1.0, std::abs(v[0][0]) / 4));
      return Arrays<double>{{bent * 0.3 / (1 + 0.5 * std::sin(y)) * v[0][0]}};
    };
    return check_vjp<double>(forward, backward, {{0.5}}, {.forward_error = forward_error});
  };
  const CheckReport without = check(1e-8, 0);
  CHECK(without.verdict == Verdict::kWrong);
  CHECK(message_contains(without, "is forward iterative?"));
  for (const double tolerance : {1e-12, 1e-8, 1e-6}) {
    CHECK(check(tolerance, tolerance).ok());
    CHECK(check(tolerance, tolerance, 1.01).verdict == Verdict::kWrong);
  }
  CHECK(check(1e-8, 1).verdict == Verdict::kVacuous);  // hides all
  CHECK(check(1e-8, 1e-3, 1.01).ok());
  for (const double bend : {0.003, 0.01})  // not linear
    CHECK(check(1e-8, 1e-3, 1, bend).verdict == Verdict::kWrong);
  for (const double error : {-1.0, HUGE_VAL, std::nan("")})
    CHECK_THROWS_AS(check(1e-8, error), ValueError);
}

}  // namespace
