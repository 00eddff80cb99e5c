// Tests of gradcheck's verdicts for wrong entries, functions of any scale, kinks, noise and zeros.
#include "autograd/autograd.h"
#include "autograd/check/differences.h"
#include "tests/support/catch.h"
#include "tests/support/checks.h"

namespace {

using namespace heed::autograd;

// Returns softmax(x) times `scale`, with a gradient that is `factor` times the right one.
DifferentiableFunction scaled(double scale, double factor) {
  return [=](Args t) {
    const Tensor x = t[0], fixed = x.detach();
    return scale * (softmax(x, -1) + (factor - 1) * (softmax(x, -1) - softmax(fixed, -1)));
  };
}

// Returns one random float64 tensor as a list of inputs.
std::vector<Tensor> some(const Shape& shape, std::uint64_t seed = 3) {
  Generator g(seed);
  return {randn(shape, float64, g)};
}

TEST_CASE("a wrong gradient fails at any scale of the function") {
  const std::vector<Tensor> xs = some({2, 3});
  for (const Oracle oracle : kAllOracles) {
    const GradcheckOptions one = only_by(oracle);
    for (const double scale : {1.0, 1e-11, 1e-30, 1e30}) {
      CAPTURE(int(oracle), scale);
      CHECK(gradcheck(scaled(scale, 1), xs, one).ok());
      for (const double factor : {-7.0, 0.0, 1000.0, 1 + 1e-6})
        CHECK(!gradcheck(scaled(scale, factor), xs, one).ok());
    }
  }
}

TEST_CASE("one wrong entry of many is found, in the sample or not") {
  const Shape shape = kSanitized ? Shape{20, 25} : Shape{40, 50};
  Tensor keep = full(shape, true, bool8);
  keep.mutable_data<bool>()[kSanitized ? 309 : 1234] = false;
  const auto f = [keep](Args t) {
    const Tensor y = t[0] * t[0];
    return where(keep, y, 1.01 * (y - y.detach()) + y.detach());
  };
  for (const Oracle oracle : kAllOracles) {
    const CheckReport report = gradcheck(f, some(shape), only_by(oracle));
    CAPTURE(report.message);
    CHECK(!report.ok());
    const std::string place = kSanitized ? "[12, 9]" : "[24, 34]";
    CHECK_THAT(report.message, Contains("input 0 at " + place + ": backward returns"));
  }
}

TEST_CASE("an entry without terms must be exactly 0") {
  // The gradient of a masked element is 1e-300 instead of 0.
  const Tensor hidden = from_data(std::vector<bool>{true, false}, {2});
  const auto f = [&](Args t) {
    const Tensor x = t[0];
    return masked_fill(x, hidden, 0) + 1e-300 * (x - x.detach());
  };
  const auto right = [&](Args t) { return masked_fill(t[0], hidden, 0); };
  const std::vector<Tensor> xs = {tensor({1, 2}, float64)};
  CHECK(gradcheck(right, xs).ok());
  // At the masked element the right gradient is exactly 0, which counts as 16 digits of agreement.
  const CheckReport report = gradcheck(right, xs, {.difference_entries = 0});
  CHECK(report.by(1, Oracle::kDual).worst.digits() == 16);
  CHECK(gradcheck(f, xs, {.difference_entries = 0}).ok() == false);
}

TEST_CASE("a kink is found, the input moved, and the move reported") {
  const std::vector<Tensor> xs = {tensor({-1, 0, 2, 0}, float64)};
  for (const auto& [name, f] :
       {std::pair<const char*, DifferentiableFunction>{"relu", [](Args t) { return relu(t[0]); }},
        {"abs", [](Args t) { return abs(t[0]); }},
        {"clamp", [](Args t) { return clamp(t[0], 0, 3); }}}) {
    CAPTURE(name);
    const CheckReport report = gradcheck(f, xs, {.order = 2});
    CAPTURE(report.message);
    CHECK(report.ok());
    REQUIRE(report.moved.size() >= 2);
    CHECK(report.moved[0].text().starts_with("input 0 at [1] from 0 to 0."));
    CHECK(report.moved[1].text().starts_with("input 0 at [3] from 0 to 0."));
  }
}

TEST_CASE("options that check nothing throw") {
  const auto f = [](Args t) { return t[0]; };
  for (const auto& [dual, difference] : {std::pair(0, 0), std::pair(-1, 32), std::pair(128, -1)})
    CHECK_THROWS_AS(
        gradcheck(f, some({2}), {.dual_entries = dual, .difference_entries = difference}),
        ValueError);
}

TEST_CASE("each order and oracle reports its worst entry and the entries it compared") {
  const auto f = [](Args t) { return exp(t[0]); };
  const CheckReport r = gradcheck(f, some({3}), {.order = 2, .seed = 9});
  CHECK(r.seed == 9);
  CHECK(r.entries[0] == 3);
  CHECK(r.entries[1] == 6);  // the entries of the input and of the cotangent
  for (const Oracle oracle : kAllOracles) {
    CHECK(r.by(1, oracle).checked == 3);
    CHECK(r.by(2, oracle).checked == 6);
    CHECK(r.by(2, oracle).worst.index.size() == 1);
  }
  const CheckReport sampled = gradcheck(f, some({3}), {.dual_entries = 1});
  CHECK(sampled.by(1, Oracle::kDual).checked == 1);
  const CheckedEntry& along = sampled.by(1, Oracle::kDual).direction;
  CHECK(along.at == CheckedEntry::kDirection);
  CHECK(along.terms > 0);
  CHECK(along.digits() > 12);
  CHECK(r.by(1, Oracle::kDifferences).worst.step > 0);
  CHECK(r.by(1, Oracle::kDual).worst.step == 0);
}

// ---- differences

double error_of(const Line& f, double derivative, double scale, double epsilon = 0x1p-53) {
  const Difference d = differences(f, measure_noise(f, scale, epsilon), scale)[0];
  CAPTURE(d.value, d.error, d.step);
  CHECK(!d.kink);
  CHECK(std::abs(d.value - derivative) <= d.error);
  return d.error;
}

TEST_CASE("digits are relative to the terms, and NaN if a value is not finite") {
  const auto digits = [](double a, double b, double terms) {
    return CheckedEntry{.given = a, .expected = b, .terms = terms}.digits();
  };
  CHECK(digits(1, 1, 0) == 16);
  CHECK(digits(1, 2, 0) == 0);
  CHECK(digits(1e-30, 1.5e-30, 5e-26) == Approx(5));
  CHECK(std::isnan(digits(std::nan(""), 1, 1)));
  CHECK(std::isnan(digits(1, HUGE_VAL, 1)));
}

TEST_CASE("differences estimate their error") {
  const auto line = [](double (*f)(double), double x) {
    return [=](double t) { return std::vector<double>{f(x + t)}; };
  };
  CHECK(error_of(line(std::exp, 1), std::exp(1), 1) < 1e-11);
  CHECK(error_of(line(std::log, 1e-8), 1e8, 1e-8) < 1e-2);
  CHECK(error_of(line(std::sin, 1e6), std::cos(1e6), 0x1p20) < 1e-6);
  // With noise of 1e-9, the error estimate is larger than for exp without noise.
  const auto noisy = [](double t) {
    return std::vector<double>{std::exp(t) + 1e-9 * std::sin(1e18 * t)};
  };
  const double error = error_of(noisy, 1, 1);
  CHECK(error > 1e-10);
  CHECK(error < 1e-5);
}

TEST_CASE("differences report a kink only where there is one") {
  const auto best = [](const Line& f) {
    return differences(f, measure_noise(f, 1, 0x1p-53), 1)[0];
  };
  const auto kinked = [](double t) { return std::vector<double>{std::abs(t)}; };
  const auto jump = [](double t) { return std::vector<double>{t < 0 ? 0.0 : 1.0}; };
  const auto smooth = [](double t) { return std::vector<double>{t * t * t}; };
  CHECK(best(kinked).kink);
  // A function that jumps has no slope.
  CHECK(best(jump).error > 1);
  CHECK(!best(smooth).kink);
}

}  // namespace
