// Tests of check_vjp with functions that do not use heed. Right gradients pass in float and double
// and at any scale. Wrong gradients fail, and the message names the entry.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tests/support/vjp_pairs.h"

using namespace heed::autograd;
using namespace heed::autograd::testing;

namespace {

TEST_CASE("numbers of a report keep their point under std::locale::global") {
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const auto report = [] {
    std::ostringstream text;
    text << check_pair(wrong_squares([](Arrays<double>& g) { g[1][2] *= 1.001; }),
                       {{1, 2}, {3, 4, 5e3, 6}}, {.seed = 12345});
    return text.str();
  };
  const std::string expected = report();
  const std::locale before = std::locale::global(std::locale(std::locale::classic(), new Comma));
  CHECK(report() == expected);
  std::locale::global(before);
}

TEST_CASE("one wrong entry is named with both values") {
  const auto wrong = wrong_squares([](Arrays<double>& g) { g[1][2] *= 1.001; });
  const CheckReport report = check_pair(wrong, {{1, 2}, {3, 4, 5, 6}});
  CHECK(report.verdict == Verdict::kWrong);
  CHECK(report.worst().input == 1);
  CHECK(report.worst().at == 2);
  CHECK(report.worst().given / report.worst().expected == Approx(1.001).epsilon(1e-8));
  CHECK(report.worst().digits() == Approx(3).margin(1e-3));
  CHECK(message_contains(report, "input 1 at [2]: backward returns"));
}

TEST_CASE("a gradient that is NaN at other points than the first is wrong") {
  const Arrays<double> x = {{2, 1, 3}};
  const Pair<double> first_point = {
      kSquares.forward, [x](const Arrays<double>& at, const Arrays<double>& v) {
        return at == x ? kSquares.backward(at, v) : Arrays<double>{{NAN, NAN, NAN}};
      }};
  CHECK(check_pair(first_point, x).verdict == Verdict::kWrong);
}

TEST_CASE("inputs of any size pass, and their wrong gradients fail") {
  for (const double size : {1e-200, 1e-30, 1e-8, 1e8, 1e60}) {
    const Arrays<double> x = {{size, -2 * size, 0.7 * size, 0}};
    const auto one = wrong_squares([](Arrays<double>& g) { g[0][1] *= 1.01; });
    CAPTURE(size);
    // If the size is smaller, the squares underflow to 0.
    if (size > 1e-100) CHECK(check_pair(kSquares, x).ok());
    CHECK(!check_pair(one, x).ok());
  }
}

TEST_CASE("a gradient that is zero and right is not vacuous") {
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
  CHECK(report.equivalent == 6);  // all mutants of input 1, whose gradient is 0
  CHECK(check_pair(first, x).verdict == Verdict::kWrong);
  const Pair<double> wrong = {first.forward, [](const Arrays<double>&, const Arrays<double>& v) {
                                return Arrays<double>{{3 * v[0][0], 0}, {1e-9 * v[0][0]}, {}};
                              }};
  CHECK(check_pair(wrong, x).worst().input == 1);
  CHECK(check_pair(wrong, x).digits() == 0);
}

TEST_CASE("a malformed gradient fails with a message") {
  const Arrays<double> x = {{1, 2}, {3, 4, 5}};
  const auto fails = [&](const auto& change, const std::string& text) {
    const CheckReport report = check_pair(wrong_squares(change), x);
    CHECK(report.verdict == Verdict::kWrong);
    CHECK(report.message.starts_with(text));
  };
  fails([](Arrays<double>& g) { g[1].pop_back(); },
        "backward returns 2 values for input 1, which has 3");
  fails([](Arrays<double>& g) { g.pop_back(); }, "backward returns 1 arrays for 2 inputs");
  fails([](Arrays<double>& g) { g[1][2] = std::nan(""); },
        "not finite: the gradient of input 1 at [2]");
  fails([](Arrays<double>& g) { g[0][0] = HUGE_VAL; },
        "not finite: the gradient of input 0 at [0]");
  fails(
      [](Arrays<double>& g) { g[1][0] += 1e-300; },
      "backward is not linear in dy, the gradient of the output: for dy = 0 it returns 1e-300 for "
      "input 1 at [0]");
  int runs = 0;
  fails([&](Arrays<double>& g) { g[0][1] += ++runs * 1e-9; },
        "the second backward after one forward returns ");
  const CheckReport nan = check_pair(kSquares, {{1, std::nan("")}});
  CHECK(nan.verdict == Verdict::kWrong);
  CHECK(message_contains(nan, "not finite: input 0 at [1]"));
  CHECK(check_pair(kSquares, {}).verdict == Verdict::kVacuous);
  CHECK(check_pair(kSquares, {{}, {}}).verdict == Verdict::kVacuous);
  const Pair<double> silent = {[](const Arrays<double>&) { return Arrays<double>{}; },
                               [](const Arrays<double>& g, const Arrays<double>&) { return g; }};
  CHECK(check_pair(silent, x).verdict == Verdict::kVacuous);
}

TEST_CASE("a backward that ignores the sign or size of the cotangent fails") {
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
  for (const double limit : {1, 10, 20})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CAPTURE(limit, seed);
      const auto clips = [limit](const Arrays<double>&, const Arrays<double>& v) {
        const double clipped = std::clamp(v[0][0], -limit, limit);
        return Arrays<double>{{clipped, clipped}};
      };
      CHECK(!check_pair<double>({sum, clips}, x, {.seed = seed}).ok());
      // Ignores cotangents below 0.002, 0.02 or 0.04.
      const auto ignores = [limit](const Arrays<double>&, const Arrays<double>& v) {
        const double large = std::abs(v[0][0]) < 0.002 * limit ? 0 : v[0][0];
        return Arrays<double>{{large, large}};
      };
      CHECK(!check_pair<double>({sum, ignores}, x, {.seed = seed}).ok());
    }
}

TEMPLATE_TEST_CASE("a failure at small cotangents only names no output", "", float, double) {
  using T = TestType;
  const auto exps = [](const Arrays<T>& x) {
    return Arrays<T>{{std::exp(x[0][0]), std::exp(x[0][1])}};
  };
  // Changes each cotangent before the right backward pass uses it.
  const auto backward = [exps](T (*change)(T)) {
    return [=](const Arrays<T>& x, const Arrays<T>& v) {
      Arrays<T> g = exps(x);
      for (std::size_t j = 0; j < 2; ++j) g[0][j] *= change(v[0][j]);
      return g;
    };
  };
  const auto right = [](T v) { return v; };
  const auto ignore_small = [](T v) { return std::abs(v) < T(0.002) ? T(0) : v; };
  const auto clip = [](T v) { return std::clamp(v, T(-10), T(10)); };
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const CheckReport small = check_vjp<T>(exps, backward(ignore_small), {{0, 1}}, {.seed = seed});
    CAPTURE(seed, small.message);
    CHECK(small.verdict == Verdict::kWrong);
    CHECK(small.message.find("backward returns 0,") != std::string::npos);
    CHECK(small.message.find("for output") == std::string::npos);
    // The gradient of an output near the smallest number of the type.
    const T tiny = std::is_same_v<T, float> ? T(-98) : T(-740);
    CHECK(check_vjp<T>(exps, backward(right), {{tiny, tiny}}, {.seed = seed}).verdict !=
          Verdict::kWrong);
    CHECK(check_vjp<T>(exps, backward(clip), {{0, tiny}}, {.seed = seed}).verdict ==
          Verdict::kWrong);
  }
}

TEMPLATE_TEST_CASE("an output with large rounding errors does not hide the derivatives of others",
                   "", float, double) {
  using T = TestType;
  const auto exps = [](const Arrays<T>& x) {
    Arrays<T> y = x;
    for (T& e : y[0]) e = std::exp(e);
    return y;
  };
  // Multiplies the gradient of entry 1 by `factor`.
  const auto backward = [&](T factor) {
    return [=](const Arrays<T>& x, const Arrays<T>& v) {
      Arrays<T> g = exps(x);
      for (std::size_t j = 0; j < g[0].size(); ++j) g[0][j] *= v[0][j] * (j == 1 ? factor : 1);
      return g;
    };
  };
  const Arrays<T> x = {{std::is_same_v<T, float> ? T(16) : T(40), 0, -1}};
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    CAPTURE(seed);
    const CheckReport right = check_vjp<T>(exps, backward(1), x, {.seed = seed});
    CHECK(right.ok());
    CHECK(right.checked() == 3);
    for (const T factor : {T(0), T(2), T(-1)}) {
      const CheckReport wrong = check_vjp<T>(exps, backward(factor), x, {.seed = seed});
      CHECK(wrong.verdict == Verdict::kWrong);
      CHECK(wrong.worst().at == 1);
    }
  }
  // Numbers near the smallest of the type have few digits, and the largest have no room for more.
  const T edge = std::is_same_v<T, float> ? T(85) : T(650);
  CHECK(check_vjp<T>(exps, backward(1), Arrays<T>{{edge, 0, -edge - 15}}).ok());
}

TEST_CASE("a large input is sampled, and a random direction covers the rest") {
  Arrays<double> x = {{}, {1, 2}};
  for (int k = 0; k < 5000; ++k) x[0].push_back(1 + 0.001 * (k * 37 % 1000));
  const CheckReport report = check_pair(kSquares, x, {.max_entries = 50});
  CHECK(report.ok());
  CHECK(report.entries[0] == 5002);
  CHECK(report.checked() == 51);
  // One of 5000 entries is wrong. If the sample does not contain this entry, the random direction
  // detects the error.
  const auto wrong = wrong_squares([](Arrays<double>& g) { g[0][4321] *= 1.5; });
  CHECK(check_pair(wrong, x, {.max_entries = 50}).verdict == Verdict::kWrong);
  // Every second column is wrong. A sample at regular distances could miss all of them.
  const auto columns = wrong_squares([](Arrays<double>& g) {
    for (std::size_t j = 1; j < 5000; j += 2) g[0][j] *= 1.01;
  });
  // The sample has 50 of the 5000 entries of input 0.
  const CheckReport odd = check_pair(columns, x, {.max_entries = 51});
  CHECK(odd.verdict == Verdict::kWrong);
  CHECK(odd.worst().at % 2 == 1);  // the report names an entry, although the direction fails too
}

TEMPLATE_TEST_CASE("one wrong entry of many is named if each output depends on all", "", float,
                   double) {
  using T = TestType;
  constexpr std::size_t kEntries = 10000;
  for (const std::size_t outputs : {1u, 3u})
    for (const std::size_t wrong : {std::size_t(7), std::size_t(6789), kEntries - 1}) {
      CAPTURE(outputs, wrong);
      int calls = 0;
      const Pair<T> sums = {[&](const Arrays<T>& x) {
                              ++calls;
                              double sum = 0;
                              for (const T e : x[0]) sum += double(e) * double(e);
                              std::vector<T> y;
                              for (std::size_t o = 1; o <= outputs; ++o)
                                y.push_back(T(sum / double(kEntries * o)));
                              return Arrays<T>{y};
                            },
                            [&](const Arrays<T>& x, const Arrays<T>& v) {
                              double slope = 0;
                              for (std::size_t o = 1; o <= outputs; ++o)
                                slope += double(v[0][o - 1]) / double(o);
                              std::vector<T> g;
                              for (const T e : x[0])
                                g.push_back(T(2 * double(e) * slope / double(kEntries)));
                              g[wrong] *= 3;
                              return Arrays<T>{g};
                            }};
      Arrays<T> x(1);
      for (std::size_t k = 0; k < kEntries; ++k) x[0].push_back(T(1) + T(k * 37 % 1000) / T(1000));
      const CheckReport report = check_pair(sums, x, {.max_entries = 20});
      CHECK(report.verdict == Verdict::kWrong);
      CHECK(report.worst().at == Index(wrong));
      CHECK(message_contains(report, "input 0 at [" + std::to_string(wrong) + "]: backward"));
      CHECK(calls < 6000);
    }
}

}  // namespace
