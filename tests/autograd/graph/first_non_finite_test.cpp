// Tests of FirstNonFinite. It names the op that first turns finite numbers into NaN or infinity,
// forward and backward. It does not name an op that writes an infinity it was given.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;
using Catch::Matchers::StartsWith;

TEST_CASE("the text names the first op at fault, its result and the index") {
  const Tensor x = leaf({1, -2, 3});
  FirstNonFinite finder;
  log(x);
  CHECK(finder.text() == "log [3] float64 is nan at [1]");
  log(tensor({0.0}, float64));  // a later infinity is not reported
  CHECK(finder.text() == "log [3] float64 is nan at [1]");
  const NoGrad guard;  // ops that are not recorded are observed too
  FirstNonFinite quotient;
  tensor({{1, 0}, {2, 3}}, float64) / tensor({1, 0}, float64);
  CHECK(quotient.text() == "div [2, 2] float64 is nan at [0, 1]");
}

TEST_CASE("for inf - inf in softmax, the text names the origin of the infinity") {
  FirstNonFinite finder;
  softmax(exp(tensor({1, 1000}, float64)), 0);
  CHECK(finder.text() == "exp [2] float64 is inf at [1]");
  FirstNonFinite given;
  softmax(tensor({1, kInf}, float64), 0);
  CHECK_THAT(given.text(), StartsWith("softmax [2] float64 is nan at ["));
}

TEST_CASE(
    "a vjp that turns finite numbers into NaN or infinity is named with the module of its op") {
  const Tensor x = leaf({4, 0});
  FirstNonFinite finder;
  Tensor y;
  {
    const NameScope block("blocks.1");
    const NameScope mlp("mlp");
    CHECK(NameScope::path() == "blocks.1.mlp");
    y = sqrt(x);
  }
  CHECK(NameScope::path().empty());
  CHECK(finder.text().empty());
  backward(sum(y));
  CHECK(finder.text() == "blocks.1.mlp: backward of sqrt: div [2] float64 is inf at [1]");
}

TEST_CASE("the gradients of a backward kernel, which calls no op, are checked") {
  const Op op({.name = "test.kernel", .samples = [](SampleGen&) { return Samples{}; }});
  const Tensor x = leaf({1, 2});
  const Tensor y = record(op, {x}, tensor({3, 4}, float64), [](const Vjp&) -> Grads {
    return {tensor({5, std::nan("")}, float64)};
  });
  FirstNonFinite finder;
  grad(y, x, {.grad_output = tensor({6, 7}, float64)});
  CHECK(finder.text() == "backward of test.kernel: gradient of input 0 [2] float64 is nan at [1]");
}

TEST_CASE("a sum of gradients that overflows is found") {
  const Tensor x = full({2}, 1e-10, float32).requires_grad_();
  FirstNonFinite finder;
  backward(sum(x * 2e38 + x * 2e38));
  CHECK_THAT(finder.text(), Contains("add [2] float32 is inf at [0]"));
}

TEST_CASE("an op that reads a NaN is not at fault, but the text names the first such op") {
  FirstNonFinite finder;
  exp(tensor({std::nan(""), 1}, float64));
  CHECK(finder.text() == "exp [2] float64 is nan at [0]");
  log(tensor({-1.0}, float64));  // an op at fault replaces it
  CHECK(finder.text() == "log [1] float64 is nan at [0]");
}

TEST_CASE("masked scores are intended: no op is at fault, in any implementation of attention") {
  Generator g(1);
  const auto draw = [&] { return randn({1, 2, 4, 3}, float32, g).requires_grad_(); };
  const Tensor q = draw(), k = draw(), v = draw();
  Tensor keep = full({4, 4}, 1, bool8);
  for (int i = 0; i < 4; ++i) keep.mutable_data<bool>()[4 + i] = false;  // row 1 may read no key
  AttentionOptions options{.causal = true, .keep = KeepMask(keep)};
  FirstNonFinite finder;
  backward(sum(attention(q, k, v, options)));
  backward(sum(attention_with_weights(q, k, v, options).output), {.create_graph = true});
  const Tensor hidden = logical_not(keep);
  backward(sum(softmax(masked_fill(matmul(q, mT(k)), hidden, -kInf), -1) * 2.0));
  CHECK(finder.text() == "");
}

TEST_CASE("observation ends with the object; after an inner object, the outer one continues") {
  const Tensor bad = tensor({-1.0}, float64);
  FirstNonFinite outer;
  {
    FirstNonFinite inner;
    log(bad);
    CHECK(!inner.text().empty());
  }
  CHECK(outer.text().empty());
  log(bad);
  CHECK(!outer.text().empty());
}

}  // namespace
