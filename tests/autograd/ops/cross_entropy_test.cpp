// Tests of cross_entropy: values and gradients of PyTorch, masks, edge cases, errors.
// accumulation_test.cpp compares rows of any size with formulas in long double.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;
using Values = std::vector<double>;

Tensor classes(const std::vector<Index>& c, const Shape& shape) { return from_data(c, shape); }
Tensor classes(const std::vector<Index>& c) { return from_data(c, {Index(c.size())}); }

// Returns the gradient of the logits, computed by the kernel. Also checks that the gradient of the
// definition is equal.
Values gradient(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& o = {}) {
  const Tensor x = logits.detach().requires_grad_();
  const Tensor y = cross_entropy(x, targets, o);
  const Tensor g = ones_like(y);
  const auto through_definition = grad(y, {x}, {.grad_output = g, .create_graph = true})[0];
  const Values kernel = values(grad(y, {x}, {.grad_output = g})[0]);
  CHECK(error(values(through_definition.detach()), kernel) <= 1e-14);
  return kernel;
}

// The numbers are from PyTorch 2.15.0 on the CPU in float64: F.cross_entropy(logits, [2, -100, 1],
// label_smoothing, reduction).
TEST_CASE("cross_entropy has PyTorch's values and gradients") {
  const Tensor x = from_data(Values{1, 2, 4, -3, 0.5, -1.5, 2.5, 0.25, 1}, {3, 3});
  const Tensor t = classes({2, -100, 1});
  CHECK(error(values(cross_entropy(x, t)), {1.3519593121212286}) <= 1e-15);
  CHECK(error(values(cross_entropy(x, t, {.reduction = Reduction::kSum})), {2.703918624242457}) <=
        1e-15);
  CHECK(error(gradient(x, t), {0.021005033067033024, 0.05709759969229724, -0.07810263275933027, 0,
                               0, 0, 0.3763559961521156, -0.460332369846359, 0.0839763736942434}) <=
        1e-15);
  const CrossEntropyOptions smooth{.label_smoothing = 0.1};
  CHECK(error(values(cross_entropy(x, t, smooth)), {1.3852926454545618}) <= 1e-15);
  CHECK(error(gradient(x, t, smooth),
              {0.004338366400366358, 0.04043093302563057, -0.044769299425996945, 0, 0, 0,
               0.35968932948544896, -0.4269990365130257, 0.06730970702757674}) <= 1e-15);
}

TEST_CASE("cross_entropy with every row ignored, or without rows, is 0 with gradient 0") {
  const Tensor x = full({2, 3}, std::nan(""), float64);
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    CHECK(cross_entropy(x, classes({-100, -100}), {.reduction = reduction}).item() == 0);
    CHECK(gradient(x, classes({-100, -100}), {.reduction = reduction}) == Values(6, 0.0));
    CHECK(cross_entropy(empty({0, 3}), classes({}), {.reduction = reduction}).item() == 0);
    CHECK(gradient(empty({0, 3}, float64), classes({}), {.reduction = reduction}).empty());
  }
  const Tensor none =
      cross_entropy(empty({2, 0, 3}), classes({}, {2, 0}), {.reduction = Reduction::kNone});
  CHECK(none.shape() == Shape{2, 0});
}

TEST_CASE("cross_entropy ignores rows whose target is ignore_index, also if that is a class") {
  const Tensor x = tensor({{1, 2}, {std::nan(""), kInf}}, float64);
  const CrossEntropyOptions o{.ignore_index = 0};
  CHECK(cross_entropy(x, classes({1, 0}), o).item() == Approx(std::log1p(std::exp(-1.0))));
  const Values d = gradient(x, classes({1, 0}), o);
  CHECK(error(d, {1 / (1 + std::exp(1.0)), -1 / (1 + std::exp(1.0)), 0, 0}) <= 1e-15);
}

TEST_CASE("cross_entropy with logits of -inf") {
  const Tensor beside = tensor({{0, -kInf, 0}}, float64);
  CHECK(cross_entropy(beside, classes({2})).item() == Approx(std::log(2.0)));
  CHECK(gradient(beside, classes({2})) == Values{0.5, 0, -0.5});
  // Smoothing gives some target probability to every class, including the class with logit -inf.
  CHECK(cross_entropy(beside, classes({2}), {.label_smoothing = 0.1}).item() == kInf);
  CHECK(cross_entropy(beside, classes({1})).item() == kInf);
  CHECK(gradient(beside, classes({1})) == Values{0.5, -1, 0.5});
  const Tensor all = full({1, 3}, -kInf, float64);
  CHECK(cross_entropy(all, classes({1})).item() == kInf);
  CHECK(gradient(all, classes({1})) == Values{0, 0, 0});
}

TEST_CASE("cross_entropy of a logit that is NaN or infinity is NaN") {
  CHECK(std::isnan(cross_entropy(tensor({{std::nan(""), 0}}), classes({1})).item()));
  CHECK(std::isnan(cross_entropy(tensor({{kInf, 0}}), classes({1})).item()));
}

TEST_CASE("a float32 loss is summed in float64") {
  // In float32, a total of 2^24 would not change when 0.69 is added.
  const Index n = 300;
  Tensor x = zeros({n, 2});
  x = where(eq(unsqueeze(arange(n), -1), 0.0), tensor({0x1p24, 0}), x);
  const double expected = 0x1p24 + double(n - 1) * std::log(2.0);
  const Tensor t = where(eq(arange(n), 0.0), ones({}, int64), zeros({}, int64));
  const double got = cross_entropy(x, t, {.reduction = Reduction::kSum}).item();
  CHECK(std::abs(got - expected) <= 1);  // half a float32 ulp at 2^24
}

TEST_CASE("cross_entropy errors name value, place and classes") {
  const Tensor x = zeros({2, 3, 5});
  const auto at = [](Index value) { return classes({0, 1, 2, 3, 4, value}, {2, 3}); };
  CHECK_THROWS_WITH(
      cross_entropy(x, at(5)),
      "cross_entropy: target 5 at [1, 2] is out of range: C = 5, so classes are 0 to 4 "
      "(ignore_index is -100)");
  CHECK_THROWS_AS(cross_entropy(x, at(-1)), ValueError);
  CHECK_NOTHROW(cross_entropy(x, at(-1), {.ignore_index = -1}));
  CHECK_THROWS_WITH(cross_entropy(zeros({5}), classes({7}, {})),
                    "cross_entropy: target 7 at [] is out of range: C = 5, so classes are 0 to 4 "
                    "(ignore_index is -100)");
  CHECK_THROWS_WITH(
      cross_entropy(x, classes({0, 1})),
      "cross_entropy: needs logits [..., C] and targets [...], got [2, 3, 5] and [2]; "
      "the classes are the last axis of the logits");
  CHECK_THROWS_AS(cross_entropy(zeros({}), classes({}, {0})), ShapeError);
  CHECK_THROWS_WITH(cross_entropy(zeros({2, 0}), classes({0, 0})),
                    "cross_entropy: needs at least one class, got logits [2, 0]");
  CHECK_THROWS_WITH(cross_entropy(zeros({2, 5}), zeros({2})),
                    "cross_entropy: needs int64 targets, got float32");
  CHECK_THROWS_WITH(cross_entropy(zeros({2, 5}, int64), classes({0, 0})),
                    "cross_entropy: needs float32 or float64, got int64");
  CHECK_THROWS_WITH(cross_entropy(zeros({2, 5}), classes({0, 0}), {.label_smoothing = 1.5}),
                    "cross_entropy: needs label_smoothing in [0, 1], got 1.5");
  CHECK_THROWS_AS(cross_entropy(zeros({2, 5}), classes({0, 0}), {.label_smoothing = std::nan("")}),
                  ValueError);
}

}  // namespace
