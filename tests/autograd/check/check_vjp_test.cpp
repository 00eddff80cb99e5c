// A backward pass that is not heed's: right ones pass, in both types and at any scale, and every
// wrong one fails with its entry.
#include "autograd/check/check_vjp.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <sstream>

#include "autograd/base/error.h"
#include "tests/support/catch.h"

using namespace heed::autograd;

namespace {

template <class T>
struct Pair {
  ForwardFunction<T> forward;
  BackwardFunction<T> backward;
};

template <class T>
std::vector<T> softmax_of(const std::vector<T>& x) {
  const T largest = *std::max_element(x.begin(), x.end());
  std::vector<T> y;
  T total = 0;
  for (const T e : x) total += y.emplace_back(std::exp(e - largest));
  for (T& e : y) e /= total;
  return y;
}

// One row; its backward times `factor`.
template <class T>
Pair<T> softmax_pair(T factor = 1) {
  return {[](const Arrays<T>& x) { return Arrays<T>{softmax_of(x[0])}; },
          [factor](const Arrays<T>& x, const Arrays<T>& v) {
            std::vector<T> g = softmax_of(x[0]);
            T mean = 0;
            for (std::size_t j = 0; j < g.size(); ++j) mean += g[j] * v[0][j];
            for (std::size_t j = 0; j < g.size(); ++j) g[j] *= factor * (v[0][j] - mean);
            return Arrays<T>{g};
          }};
}

// -log softmax(x)[target], and x's sum beside it: two outputs.
template <class T>
Pair<T> cross_entropy_pair(std::size_t target) {
  return {[=](const Arrays<T>& x) {
            T sum = 0;
            for (const T e : x[0]) sum += e;
            return Arrays<T>{{-std::log(softmax_of(x[0])[target])}, {sum}};
          },
          [=](const Arrays<T>& x, const Arrays<T>& v) {
            std::vector<T> g = softmax_of(x[0]);
            g[target] -= 1;
            for (T& e : g) e = e * v[0][0] + v[1][0];
            return Arrays<T>{g};
          }};
}

template <class T>
const Arrays<T> kRow = {{T(0.3), T(-1.2), T(0.7), T(2.1), T(-0.4)}};

template <class T>
CheckReport check_pair(const Pair<T>& pair, const Arrays<T>& x, const CheckOptions& options = {}) {
  CheckReport report = check_vjp(pair.forward, pair.backward, x, options);
  std::ostringstream text;
  text << report;
  UNSCOPED_INFO(text.str());
  return report;
}

bool says(const CheckReport& report, const std::string& words) {
  return report.message.find(words) != std::string::npos;
}

// The pair with its outputs and gradients times 2^exponent.
template <class T>
Pair<T> scaled(const Pair<T>& pair, int exponent) {
  const auto times = [exponent](Arrays<T> arrays) {
    for (auto& array : arrays)
      for (T& e : array) e = std::ldexp(e, exponent);
    return arrays;
  };
  return {[=](const Arrays<T>& x) { return times(pair.forward(x)); },
          [=](const Arrays<T>& x, const Arrays<T>& v) { return times(pair.backward(x, v)); }};
}

const Pair<double> kSquares = {[](const Arrays<double>& x) {
                                 Arrays<double> y = x;
                                 for (auto& row : y)
                                   for (double& e : row) e *= e;
                                 return y;
                               },
                               [](const Arrays<double>& x, const Arrays<double>& v) {
                                 Arrays<double> g = x;
                                 for (std::size_t i = 0; i < g.size(); ++i)
                                   for (std::size_t j = 0; j < g[i].size(); ++j)
                                     g[i][j] *= 2 * v[i][j];
                                 return g;
                               }};

// kSquares with something done to its gradients.
template <class Change>
Pair<double> wrong_squares(Change change) {
  return {kSquares.forward, [change](const Arrays<double>& x, const Arrays<double>& v) {
            Arrays<double> g = kSquares.backward(x, v);
            change(g);
            return g;
          }};
}

}  // namespace

TEMPLATE_TEST_CASE("right gradients pass in both types", "", float, double) {
  using T = TestType;
  const double digits = std::is_same_v<T, float> ? 3 : 9;
  const CheckReport softmax = check_pair(softmax_pair<T>(), kRow<T>);
  CHECK(softmax.ok());
  CHECK(softmax.digits >= digits);
  CHECK(softmax.checked == 5);
  CHECK(softmax.mutants == 6);
  CHECK(softmax.killed == 6);
  const CheckReport loss = check_pair(cross_entropy_pair<T>(2), kRow<T>);
  CHECK(loss.ok());
  CHECK(loss.digits >= digits);
}

TEMPLATE_TEST_CASE("ggml's three survivors die: softmax backward times -7, 0 and 1000", "", float,
                   double) {
  for (const double factor : {-7.0, 0.0, 1000.0}) {
    const CheckReport report = check_pair(softmax_pair<TestType>(TestType(factor)), kRow<TestType>);
    CHECK(report.verdict == Verdict::kWrong);
    CHECK(says(report, "input 0 at ["));
  }
}

TEST_CASE("one wrong entry is named with both values") {
  const auto wrong = wrong_squares([](Arrays<double>& g) { g[1][2] *= 1.001; });
  const CheckReport report = check_pair(wrong, {{1, 2}, {3, 4, 5, 6}});
  CHECK(report.verdict == Verdict::kWrong);
  CHECK(report.worst.input == 1);
  CHECK(report.worst.at == 2);
  CHECK(report.worst.given / report.worst.expected == Approx(1.001).epsilon(1e-8));
  CHECK(report.worst.digits() == Approx(3).margin(1e-3));
  CHECK(says(report, "input 1 at [2]: backward gives"));
}

TEST_CASE("verdict and digits are the same at every scale of the function") {
  const Pair<double> pairs[] = {softmax_pair<double>(), cross_entropy_pair<double>(2),
                                softmax_pair<double>(1.0001)};
  for (const Pair<double>& pair : pairs) {
    const CheckReport one = check_pair(pair, kRow<double>);
    for (const int exponent : {-100, -37, 1, 64, 100}) {
      const CheckReport report = check_pair(scaled(pair, exponent), kRow<double>);
      CHECK(report.verdict == one.verdict);
      CHECK(report.digits == one.digits);
      CHECK(report.worst.at == one.worst.at);
      CHECK(report.killed == one.killed);
    }
  }
  const CheckReport one = check_pair(cross_entropy_pair<float>(2), kRow<float>);
  for (const int exponent : {-80, 80}) {
    const auto report = check_pair(scaled(cross_entropy_pair<float>(2), exponent), kRow<float>);
    CHECK(report.ok());
    CHECK(report.digits == one.digits);
  }
}

TEST_CASE("inputs of any size pass, and their wrong gradients fail") {
  for (const double size : {1e-200, 1e-30, 1e-8, 1e8, 1e60}) {
    const Arrays<double> x = {{size, -2 * size, 0.7 * size, 0}};
    const auto one = wrong_squares([](Arrays<double>& g) { g[0][1] *= 1.01; });
    CAPTURE(size);
    if (size > 1e-100) CHECK(check_pair(kSquares, x).ok());  // else their squares are 0
    CHECK(!check_pair(one, x).ok());
  }
}

// log|x|: a step from one side of 0 to the other sees no slope.
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

TEST_CASE("in float no right gradient is refused by a step that seemed exact by luck") {
  constexpr std::size_t kEntries = 1000;
  const Pair<float> bump = {[](const Arrays<float>& x) {
                              Arrays<float> y = x;
                              for (float& e : y[0]) e = std::tanh(e) * std::exp(-e * e / 8);
                              return y;
                            },
                            [](const Arrays<float>& x, const Arrays<float>& v) {
                              Arrays<float> g = v;
                              for (std::size_t j = 0; j < kEntries; ++j) {
                                const float e = x[0][j], t = std::tanh(e);
                                g[0][j] *= (1 - t * t - t * e / 4) * std::exp(-e * e / 8);
                              }
                              return g;
                            }};
  Arrays<float> x(1);
  for (std::size_t j = 0; j < kEntries; ++j) x[0].push_back(7 * std::sin(float(j)));
  for (std::uint64_t seed = 1; seed <= 3; ++seed) CHECK(check_pair(bump, x, {.seed = seed}).ok());
}

TEST_CASE("a gradient that is rightly zero is not vacuous") {
  const Pair<double> first = {
      [](const Arrays<double>& x) { return Arrays<double>{{x[0][0] * 3}}; },
      [](const Arrays<double>& x, const Arrays<double>&) {
        return Arrays<double>{std::vector<double>(x[0].size(), 0.0), {0}, {}};
      }};
  const Pair<double> right = {first.forward, [](const Arrays<double>&, const Arrays<double>& v) {
                                return Arrays<double>{{3 * v[0][0], 0}, {0}, {}};
                              }};
  const Arrays<double> x = {{2, 5}, {7}, {}};
  const CheckReport report = check_pair(right, x);
  CHECK(report.ok());
  CHECK(report.equivalent == 6);  // all of input 1
  CHECK(check_pair(first, x).verdict == Verdict::kWrong);
  const Pair<double> wrong = {first.forward, [](const Arrays<double>&, const Arrays<double>& v) {
                                return Arrays<double>{{3 * v[0][0], 0}, {1e-9 * v[0][0]}, {}};
                              }};
  CHECK(check_pair(wrong, x).worst.input == 1);
  CHECK(check_pair(wrong, x).digits == 0);
}

TEST_CASE("a function whose rounding hides its gradient proves nothing") {
  const Pair<double> hidden = {
      [](const Arrays<double>& x) { return Arrays<double>{{1e20 + x[0][0]}}; },
      [](const Arrays<double>&, const Arrays<double>& v) { return Arrays<double>{{v[0][0]}}; }};
  const CheckReport report = check_pair(hidden, {{1.5}});
  CHECK(report.verdict == Verdict::kVacuous);
  CHECK(says(report, "input 0: its gradient negated passes, too"));
}

TEST_CASE("a gradient that was forgotten is not right because rounding hides it") {
  // x + 1e6 in float: differences cannot tell 1 from 0.
  const Arrays<float> x = {{0.1F, 0.2F, -0.5F}};
  const auto plus = [](const Arrays<float>& a) {
    Arrays<float> y = a;
    for (float& e : y[0]) e += 1e6F;
    return y;
  };
  for (const float factor : {0.0F, 1.0F}) {
    const CheckReport report = check_vjp<float>(
        plus,
        [&](const Arrays<float>&, const Arrays<float>& v) {
          Arrays<float> g = v;
          for (float& e : g[0]) e *= factor;
          return g;
        },
        x);
    CAPTURE(factor, report);
    CHECK(report.verdict == Verdict::kVacuous);
    CHECK(report.digits == 0);
    CHECK(report.checked == 0);
  }
}

template <class T>
Arrays<T> relu_forward(const Arrays<T>& x) {
  Arrays<T> y = x;
  for (T& e : y[0]) e = std::max(e, T(0));
  return y;
}

// The gradient of relu, that of the first entry times `factor`.
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
      if (right.worst.input == 0 && x[0][0] < 0) continue;  // 0 times anything
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

TEST_CASE("a forward that overflows beside x is told so, not backward") {
  const CheckReport report = check_vjp<double>(
      [](const Arrays<double>& x) { return x; },
      [](const Arrays<double>&, const Arrays<double>& v) { return v; }, {{1.7e308, 1}});
  CHECK(!report.ok());
  CHECK(says(report, "forward is not finite at places near x"));
}

TEST_CASE("noise of backward is no excuse: a wrong gradient full of it fails") {
  const Pair<double> noisy = {kSquares.forward,
                              [](const Arrays<double>& x, const Arrays<double>& v) {
                                Arrays<double> g = kSquares.backward(x, v);
                                for (std::size_t j = 0; j < g[0].size(); ++j)
                                  g[0][j] *= std::sin(1e12 * x[0][j]);
                                return g;
                              }};
  CHECK(check_pair(noisy, {{1, 2, 3}}).verdict == Verdict::kWrong);
}

TEST_CASE("what is no gradient fails and says so") {
  const Arrays<double> x = {{1, 2}, {3, 4, 5}};
  const auto fails = [&](const auto& change, const std::string& text) {
    const CheckReport report = check_pair(wrong_squares(change), x);
    CHECK(report.verdict == Verdict::kWrong);
    CHECK(report.message == text);
  };
  fails([](Arrays<double>& g) { g[1].pop_back(); },
        "backward gives 2 values for input 1, which has 3");
  fails([](Arrays<double>& g) { g.pop_back(); }, "backward gives 1 gradients for 2 inputs");
  fails([](Arrays<double>& g) { g[1][2] = std::nan(""); },
        "not finite: the gradient of input 1 at [2]");
  fails([](Arrays<double>& g) { g[0][0] = HUGE_VAL; },
        "not finite: the gradient of input 0 at [0]");
  fails([](Arrays<double>& g) { g[1][0] += 1e-300; },
        "zero cotangents give a gradient other than zero: input 1 at [0]");
  int runs = 0;
  fails([&](Arrays<double>& g) { g[0][1] += ++runs * 1e-9; },
        "a second run of backward gives other bits");
  const CheckReport nan = check_pair(kSquares, {{1, std::nan("")}});
  CHECK(nan.verdict == Verdict::kWrong);
  CHECK(says(nan, "not finite"));
  CHECK(check_pair(kSquares, {}).verdict == Verdict::kVacuous);
  CHECK(check_pair(kSquares, {{}, {}}).verdict == Verdict::kVacuous);
  const Pair<double> silent = {[](const Arrays<double>&) { return Arrays<double>{}; },
                               [](const Arrays<double>& g, const Arrays<double>&) { return g; }};
  CHECK(check_pair(silent, x).verdict == Verdict::kVacuous);
  CHECK_THROWS_AS(check_pair(kSquares, x, {.max_entries = 0}), ValueError);
}

TEST_CASE("a cotangent's sign and size count") {
  const Arrays<double> x = {{1.5, 2}};
  const auto sum = [](const Arrays<double>& a) { return Arrays<double>{{a[0][0] + a[0][1]}}; };
  const auto gives = [&](double (*of)(double)) {
    return check_pair<double>({sum,
                               [of](const Arrays<double>&, const Arrays<double>& v) {
                                 return Arrays<double>{{of(v[0][0]), of(v[0][0])}};
                               }},
                              x)
        .ok();
  };
  CHECK(gives([](double v) { return v; }));
  CHECK(!gives([](double v) { return std::abs(v); }));
  CHECK(!gives([](double v) { return -std::abs(v); }));
  CHECK(!gives([](double v) { return v == 0 ? 0.0 : 1.0; }));
}

TEST_CASE("a point on a kink is moved, and the move reported") {
  const Pair<double> relu = {[](const Arrays<double>& x) {
                               Arrays<double> y = x;
                               for (double& e : y[0]) e = std::max(e, 0.0);
                               return y;
                             },
                             [](const Arrays<double>& x, const Arrays<double>& v) {
                               Arrays<double> g = v;
                               for (std::size_t j = 0; j < g[0].size(); ++j) g[0][j] *= x[0][j] > 0;
                               return g;
                             }};
  const CheckReport on = check_pair(relu, {{1, 0, -2}});
  CHECK(on.ok());
  REQUIRE(on.moved.size() == 1);
  CHECK(on.moved[0].at == 1);
  CHECK(on.moved[0].from == 0);
  CHECK(std::abs(on.moved[0].to) > 0);
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
  const CheckReport near = check_pair(relu, {{1, 1e-3, -1e-4, 1e-9}});
  CHECK(near.ok());
  CHECK(near.moved.empty());
}

TEST_CASE("a large input is sampled, with a direction that sees the rest") {
  Arrays<double> x = {{}, {1, 2}};
  for (int k = 0; k < 5000; ++k) x[0].push_back(1 + 0.001 * (k * 37 % 1000));
  const CheckReport report = check_pair(kSquares, x, {.max_entries = 50});
  CHECK(report.ok());
  CHECK(report.entries == 5002);
  CHECK(report.checked == 51);
  // Of 5000 one is wrong; whether it is in the sample or not, the direction sees it.
  const auto wrong = wrong_squares([](Arrays<double>& g) { g[0][4321] *= 1.5; });
  CHECK(check_pair(wrong, x, {.max_entries = 50}).verdict == Verdict::kWrong);
  // Every other column: a sample in step with the rows would not see it.
  const auto columns = wrong_squares([](Arrays<double>& g) {
    for (std::size_t j = 1; j < 5000; j += 2) g[0][j] *= 1.01;
  });
  const CheckReport odd = check_pair(columns, x, {.max_entries = 51});  // 50 of 5000
  CHECK(odd.verdict == Verdict::kWrong);
  CHECK(odd.worst.at % 2 == 1);  // an entry, although the direction sees it, too
}

TEST_CASE("a function that is finite at x alone fails") {
  const Pair<double> pointed = {
      [](const Arrays<double>& x) { return Arrays<double>{{x[0][0] == 1.5 ? 1 : std::nan("")}}; },
      [](const Arrays<double>&, const Arrays<double>& v) { return Arrays<double>{{0 * v[0][0]}}; }};
  CHECK(check_pair(pointed, {{1.5}}).verdict == Verdict::kWrong);
}
