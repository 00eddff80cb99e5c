// Tests of check_low_precision, with functions whose arithmetic is rounded to float16 or bfloat16.
#include "autograd/check/low_precision.h"

#include <cmath>
#include <cstddef>

#include "tests/support/vjp_pairs.h"

using namespace heed::autograd;
using namespace heed::autograd::testing;

namespace {

constexpr Precision kHalf = precision_of<Float16>(), kBrain = precision_of<BFloat16>();

using Round = std::function<double(double)>;
using Change = std::function<void(Values&)>;

// Softmax, or a layer norm, of rows of n elements. Each operation is rounded by `round`.
struct Rows {
  bool is_softmax;
  std::size_t n;
  Round round;

  // Appends a row of y to `out`. Returns the number by which the row was divided.
  double forward(const double* x, Values& out) const {
    double largest = x[0], mean = 0, sum = 0;
    for (std::size_t j = 0; j < n; ++j)
      largest = std::max(largest, x[j]), mean = round(mean + x[j]);
    mean = round(mean / double(n));
    Values y;
    for (std::size_t j = 0; j < n; ++j) {
      const double e = is_softmax ? std::exp(round(x[j] - largest)) : x[j] - mean;
      y.push_back(round(e));
      sum = round(sum + (is_softmax ? y[j] : round(y[j] * y[j])));
    }
    const double scale = is_softmax ? sum : round(std::sqrt(round(sum / double(n))));
    for (const double e : y) out.push_back(round(e / scale));
    return scale;
  }
  void backward(const double* x, const double* dy, Values& out) const {
    Values y;
    const double scale = forward(x, y);
    double dot = 0, mean = 0;
    for (std::size_t j = 0; j < n; ++j)
      dot = round(dot + round(y[j] * dy[j])), mean = round(mean + dy[j]);
    if (!is_softmax) dot = round(dot / double(n)), mean = round(mean / double(n));
    for (std::size_t j = 0; j < n; ++j)
      out.push_back(is_softmax ? round(y[j] * round(dy[j] - dot))
                               : round(round(round(dy[j] - mean) - round(y[j] * dot)) / scale));
  }
};

// Returns the function of 4 rows. All results are changed and then rounded by `store`.
CheckedFunction function_of(const Rows& rows, const Round& store, const Change& change) {
  CheckedFunction c;
  c.inputs = c.outputs = {Shape{4, Index(rows.n)}};
  Generator random(7);
  while (c.x.size() < 4 * rows.n) c.x.push_back(kBrain.rounded(4 * random.uniform_double() - 2));
  const auto stored = [store](Values all) {
    for (double& e : all) e = store(e);
    return all;
  };
  c.forward = [=](const Values& x) {
    Values y;
    for (std::size_t at = 0; at < x.size(); at += rows.n) rows.forward(&x[at], y);
    return stored(y);
  };
  c.backward = [=](const Values& x, const Values& dy) {
    Values g;
    for (std::size_t at = 0; at < x.size(); at += rows.n) rows.backward(&x[at], &dy[at], g);
    change(g);
    return stored(g);
  };
  return c;
}

double exact(double x) { return x; }
void keep(Values&) {}

struct Case {
  bool is_softmax = true;
  Precision type = kBrain;
  bool has_plain = true;
  std::size_t n = 7;
};

CheckReport check(const Case& c, std::uint64_t seed = 1, const Change& change = keep) {
  const Round to_type = [type = c.type](double x) { return type.rounded(x); };
  const Round to_float = [](double x) { return double(float(x)); };
  const CheckReport report = check_low_precision(
      function_of({c.is_softmax, c.n, to_float}, to_type, change),
      c.has_plain ? function_of({c.is_softmax, c.n, to_type}, to_type, keep) : CheckedFunction{},
      function_of({c.is_softmax, c.n, exact}, exact, keep), c.type, {.seed = seed});
  std::ostringstream text;
  text << report;
  UNSCOPED_INFO(text.str());
  return report;
}

double largest_of(const Values& g) {
  double largest = 0;
  for (const double e : g) largest = std::max(largest, std::abs(e));
  return largest;
}

// Calls `test` with each combination of function, type and length.
void each_case(const std::function<void(const Case&)>& test) {
  for (const Precision& type : {kHalf, kBrain})
    for (const bool is_softmax : {true, false})
      for (const std::size_t n : {3u, 64u}) {
        CAPTURE(type.roundoff, is_softmax, n);
        test({.is_softmax = is_softmax, .type = type, .n = n});
      }
}

TEST_CASE("a factor of 1.003 is found, although each number is within one rounding") {
  each_case([](const Case& c) {
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      const CheckReport report = check(c, seed, [](Values& g) { g = times(g, 1.003); });
      CHECK(report.verdict == Verdict::kWrong);
      CHECK(report.low_precision.factor == Approx(1.003).margin(1e-3));
      if (c.type.roundoff == kBrain.roundoff && c.n == 64) {
        CHECK(report.low_precision.ratio < 3);
        CHECK(message_contains(report, "the gradient of input 0 is 1.003"));
      }
    }
  });
}

TEST_CASE("the other wrong gradients are found") {
  each_case([](Case c) {
    for (const bool has_plain : {false, true}) {
      c.has_plain = has_plain;
      const auto fails = [&](const Change& change) {
        CHECK(check(c, 1, change).verdict == Verdict::kWrong);
      };
      fails([&](Values& g) {
        // The error of `plain` is up to 4 roundings.
        g[1] += (has_plain ? 20 : 5) * c.type.roundoff * largest_of(g);
      });
      fails([](Values& g) { g[2] = std::nan(""); });
      fails([](Values& g) { g = times(g, 0); });
      fails([](Values& g) { g = times(g, -1); });
      fails([](Values& g) { std::ranges::reverse(g); });
      fails([](Values& g) { *std::ranges::max_element(g) = 0; });
      int calls = 0;  // wrong only at the given x
      fails([&](Values& g) { g[0] += calls++ == 0 ? largest_of(g) : 0; });
    }
  });
}

TEST_CASE("a function that is exact passes, and one with a rounded constant") {
  const auto multiple = [](double factor, const Round& round) {
    CheckedFunction c;
    c.inputs = c.outputs = {Shape{3}};
    c.x = {1.5, 0.75, -2};
    c.forward = [=](const Values& x) {
      Values y = times(x, factor);
      for (double& e : y) e = round(e);
      return y;
    };
    c.backward = [f = c.forward](const Values&, const Values& dy) { return f(dy); };
    return c;
  };
  const Round to_type = [](double x) { return kBrain.rounded(x); };
  const CheckReport twice =
      check_low_precision(multiple(2, to_type), {}, multiple(2, exact), kBrain, {});
  CHECK(twice.ok());
  CHECK(twice.low_precision.ratio == 0);
  CHECK(twice.low_precision.factor == 1);
  const CheckedFunction tenth = multiple(kBrain.rounded(0.1), to_type);
  const auto check_tenth = [&](double factor, const CheckedFunction& plain) {
    return check_low_precision(tenth, plain, multiple(factor, exact), kBrain, {});
  };
  CHECK(check_tenth(0.1, {}).ok());
  CHECK(check_tenth(0.0998, tenth).ok());  // the plain version has the same error
  CHECK(message_contains(check_tenth(0.0998, {}), "is 1.00"));
  // A reference that is wrong, or that is not given, proves nothing.
  CheckedFunction wrong = multiple(2, exact);
  wrong.backward = multiple(3, exact).backward;
  const CheckReport report = check_low_precision(multiple(3, to_type), {}, wrong, kBrain, {});
  CHECK(report.verdict == Verdict::kVacuous);
  CHECK(report.message.starts_with("the reference: input 0 at ["));
  const CheckReport none = check_low_precision(tenth, {}, {}, kBrain, {});
  CHECK(none.verdict == Verdict::kVacuous);
  // A plain version whose errors are as large as the gradient would accept zeros.
  const CheckReport hidden =
      check_low_precision(multiple(2, to_type), multiple(3, exact), multiple(2, exact), kBrain, {});
  CHECK(hidden.verdict == Verdict::kVacuous);
  CHECK(message_contains(hidden, "whose rounding errors hide wrong results"));
}

}  // namespace
