// Runs every registered check: compares gradients and gradients of gradients with central
// differences and dual numbers, in every layout of the inputs and of the cotangent.

#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/checks.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;

bool is_layer(const Check* check) { return check->name().starts_with("nn."); }

// Returns true if the sample `name` has an input that the layout can change. Such a sample must not
// be skipped.
bool can_be(CheckLayout layout, const Check& check, const std::string& name) {
  const int rank = layout == CheckLayout::kTransposed ? 2 : layout == CheckLayout::kSliced ? 1 : 0;
  for (const Sample& s : check.samples())
    for (const Tensor& x : s.inputs)
      if (s.name == name && x.numel() > 0 && x.rank() >= rank) return true;
  return false;
}

// Runs the registered checks of layers if `layers` is true, else all other checks, at order 2,
// which includes order 1. Returns the layouts that were checked. At order 1, gradients must agree
// with dual numbers in at least 12 digits, and with differences in at least 9 digits. Digits are
// relative to the terms that add up to an entry.
std::set<CheckLayout> run_all(bool layers) {
  GradcheckOptions how{.order = 2};
  if (kSanitized) how.dual_entries = 4, how.difference_entries = 0;  // all of them take minutes
  std::set<CheckLayout> ran;
  for (const Check* check : library_checks()) {
    if (is_layer(check) != layers) continue;
    bool checked = false;
    Index entries = 0;
    for (const CheckResult& r : run_check(*check, how)) {
      CAPTURE(check->name(), r.sample, layout_name(r.layout), r.report.order, r.skipped,
              r.report.message);
      const bool repeats = r.layout == CheckLayout::kExpanded || r.layout == CheckLayout::kAliased;
      if (!r.skipped.empty()) {
        // A sample may be skipped only in the expanded and aliased layouts, or if no input fits the
        // layout.
        CHECK((repeats || !can_be(r.layout, *check, r.sample)));
        continue;
      }
      CHECK(r.report.ok());
      CHECK(r.report.order == 2);
      CHECK(r.report.moved.empty());
      for (const Oracle oracle : kAllOracles) {
        const OracleReport& found = r.report.by(1, oracle);
        if (found.checked > 0) CHECK(found.worst.digits() >= (oracle == Oracle::kDual ? 12 : 9));
        entries += found.checked;
      }
      checked = true;
      ran.insert(r.layout);
    }
    CAPTURE(check->name());
    CHECK(checked);
    CHECK(entries > 0);
  }
  return ran;
}

TEST_CASE("every op's gradients agree with both oracles in every layout, at both orders") {
  CHECK(run_all(false).size() == std::size(kAllLayouts));
}
TEST_CASE("every layer's gradients agree with both oracles at both orders") {
  CHECK(run_all(true).count(CheckLayout::kContiguous) == 1);
}

std::vector<Tensor> gradients(const Sample& s, const Tensor& cotangent) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : s.inputs) leaves.push_back(x.detach().requires_grad_());
  const Tensor y = s.f(leaves);
  if (!y.requires_grad()) return {};
  return grad(y, leaves, {.grad_output = cotangent, .allow_unused = true});
}

TEST_CASE("a value does not depend on the strides of the inputs") {
  for (const Check* check : library_checks())
    for (const Sample& s : check->samples())
      for (const DType dtype : {float32, float64})
        for (std::size_t layout = 0; layout < 4; ++layout) {
          std::vector<Tensor> plain, laid_out;
          for (const Tensor& x : s.inputs) {
            plain.push_back(to(x, dtype));
            laid_out.push_back(testing::layouts(plain.back())[layout].x);
          }
          CAPTURE(check->name(), s.name, dtype, layout);
          const Tensor want = s.f(plain);
          CHECK(testing::close(to(s.f(laid_out), float64), to(want, float64),
                               want.dtype() == float32 ? 1e-6 : 1e-14));
        }
}

TEST_CASE("a gradient does not depend on the strides of the cotangent") {
  Generator random(5);
  for (const Check* check : library_checks())
    for (const Sample& s : check->samples()) {
      CAPTURE(check->name(), s.name);
      const Tensor v = randn(s.f(s.inputs).shape(), float64, random);
      const auto expected = gradients(s, v);
      for (const auto& [name, laid_out] : testing::layouts(v)) {
        CAPTURE(name);
        const auto got = gradients(s, laid_out);
        REQUIRE(got.size() == expected.size());
        for (std::size_t i = 0; i < got.size(); ++i)
          CHECK(allclose(got[i], expected[i], 1e-13, 1e-13));
      }
      // The most common cotangent is that of sum(), an expanded scalar.
      const Tensor ones_of_stride_0 = expand(full({}, 1, float64), v.shape());
      const auto of_ones = gradients(s, ones_like(v));
      const auto got = gradients(s, ones_of_stride_0);
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(allclose(got[i], of_ones[i], 1e-13, 1e-13));
    }
}

TEST_CASE("a gradient computed alone equals the one computed with all others") {
  Generator random(8);
  for (const Check* check : library_checks())
    for (const DType dtype : {float32, float64})
      for (Sample s : check->samples()) {
        CAPTURE(check->name(), s.name, dtype);
        for (Tensor& x : s.inputs) x = to(x, dtype);
        const Tensor sample = s.f(s.inputs), v = randn(sample.shape(), sample.dtype(), random);
        const auto all = gradients(s, v);
        for (std::size_t i = 0; i < all.size(); ++i) {
          std::vector<Tensor> inputs = s.inputs;
          inputs[i] = inputs[i].detach().requires_grad_();
          const Tensor y = s.f(inputs);
          if (!y.requires_grad()) continue;
          const auto alone = grad(y, {inputs[i]}, {.grad_output = v, .allow_unused = true})[0];
          const double tolerance = dtype == float32 ? 1e-5 : 1e-13;
          CHECK(allclose(alone, all[i], tolerance, tolerance));
        }
      }
}

// ---- wrong gradients that the checker must find and locate

TEST_CASE("gradcheck names order, input, place and both values") {
  const auto f = [](Args t) {
    // Computes x * y, but leaves out the gradient of y at place [1].
    const Tensor y = where(from_data(std::vector<bool>{true, false}, {2}), t[1], t[1].detach());
    return t[0] * y;
  };
  const std::vector<Tensor> xs = {tensor({3, 4}, float64), tensor({5, 6}, float64)};
  for (const Oracle oracle : kAllOracles) {
    const CheckReport report = gradcheck(f, xs, only_by(oracle));
    CHECK(!report.ok());
    CHECK(report.message ==
          "order 1: input 1 at [1]: backward returns 0, " + report.oracle_name(1, oracle) +
              " give 4 for output [1] (0 digits agree); 3 of 16 comparisons fail");
  }
}

TEST_CASE("gradcheck fails on NaN, on inf and on a function that changes") {
  const std::vector<Tensor> xs = {tensor({1, -1}, float64)};
  for (const DifferentiableFunction& f :
       {DifferentiableFunction([](Args t) { return log(t[0]); }),
        DifferentiableFunction([](Args t) { return sqrt(abs(t[0]) - 1.0); })})
    CHECK((!gradcheck(f, xs).ok() && std::isnan(gradcheck(f, xs).error(1))));
  int calls = 0;
  CHECK(!gradcheck([&calls](Args t) { return t[0] * double(++calls); }, xs).ok());
  CHECK_THROWS_WITH(gradcheck([](Args t) { return t[0]; }, std::vector<Tensor>{tensor({1})}),
                    "gradcheck: needs float64 inputs, got float32; in float32 no step size "
                    "separates a wrong gradient from rounding errors");
  CHECK_THROWS_WITH(gradcheck([](Args t) { return t[0]; }, xs, {.order = 3}),
                    "gradcheck: order must be 1 or 2, got 3");
}

TEST_CASE("a layout that does not apply is skipped for a stated reason") {
  const Check one("test.one_input", [](SampleGen& g) -> Samples {
    const auto square = [](Args t) { return t[0] * t[0]; };
    return {{"vector", square, {g.normal({3})}}, {"rank 0", square, {g.normal({})}}};
  });
  std::vector<std::string> skipped;
  for (const CheckResult& r : run_check(one, {})) {
    CHECK(r.report.ok());
    skipped.push_back(r.skipped);
  }
  REQUIRE(skipped.size() == 2 * std::size(kAllLayouts));
  const std::set<std::size_t> ran = {0, 2, 3, 5};  // contiguous, and the vector sliced and expanded
  for (std::size_t i = 0; i < skipped.size(); ++i) CHECK(skipped[i].empty() == ran.contains(i));
  CHECK(skipped[1] == "no input with elements has rank 2 or more to transpose");
  const Sample no_inputs{"none", [](Args) { return ones({1}, float64); }, {}};
  for (const CheckLayout layout : kAllLayouts)
    CHECK(with_layout(no_inputs, layout).sample.has_value() ==
          (layout == CheckLayout::kContiguous));
}

TEST_CASE("a check without samples fails") {
  const Check none("test.none", [](SampleGen&) -> Samples { return {}; });
  const auto results = run_check(none, {});
  REQUIRE(results.size() == 1);
  CHECK(!results[0].report.ok());
  CHECK(results[0].report.message == "order 1: the check has no samples; return at least one");
}

}  // namespace
