// Tests of FirstNonFinite. It names the op that first turns finite numbers into NaN or infinity,
// forward and backward. It does not name an op that writes an infinity it was given.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;
using Catch::Matchers::StartsWith;

TEST_CASE("the text for log of a negative number names op, index, and the operand with its value") {
  const Tensor x = leaf({1, -2, 3});
  FirstNonFinite finder({{"w", x}});
  log(x);
  CHECK(finder.found());
  CHECK(finder.text() ==
        "log [3] float64 is nan at [1]: input 0 (w) [3] float64 is -2 there, -2 to 3");
  log(tensor({0.0}, float64));  // a later NaN is not reported
  CHECK_THAT(finder.text(), Contains("(w)"));
}

TEST_CASE("the text for 0/0 names both operands, also if they broadcast") {
  FirstNonFinite finder;
  const NoGrad guard;  // ops that are not recorded are observed too
  tensor({{1, 0}, {2, 3}}, float64) / tensor({1, 0}, float64);
  CHECK_THAT(finder.text(), Contains("div [2, 2] float64 is nan at [0, 1]: input 0 [2, 2] float64 "
                                     "is 0 there, 0 to 3; input 1 [2] float64 is 0 there, 0 to 1"));
}

TEST_CASE("for inf - inf in softmax, the text names the origin of the infinity first") {
  const Tensor x = tensor({1, 1000}, float64);
  FirstNonFinite finder;
  softmax(exp(x), 0);
  CHECK_THAT(finder.text(),
             StartsWith("exp [2] float64 is inf at [1]: input 0 [2] float64 is 1000 "
                        "there, 1 to 1000; which led to softmax [2] float64 is nan"));
  FirstNonFinite given;
  softmax(tensor({1, kInf}, float64), 0);
  CHECK_THAT(given.text(), StartsWith("softmax [2] float64 is nan at ["));
  CHECK_THAT(given.text(), Contains("inf at [1]"));
}

TEST_CASE("an overflow in matmul is reported until an unrelated NaN occurs") {
  FirstNonFinite finder;
  const Tensor a = full({2, 2}, 1e20, float32);
  const Tensor large = matmul(a, a);
  CHECK_THAT(finder.text(), StartsWith("matmul [2, 2] float32 is inf at [0, 0]: input 0 [2, 2]"));
  CHECK_THAT(finder.text(), Contains("1e+20 to 1e+20"));
  1.0 / large;  // 1 / inf is finite
  sqrt(tensor({-1.0}, float32));
  CHECK_THAT(finder.text(), StartsWith("sqrt [1] float32 is"));
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
  CHECK(!finder.found());
  backward(sum(y));
  CHECK_THAT(finder.text(), StartsWith("blocks.1.mlp: backward of sqrt: div [2] float64 is inf at "
                                       "[1]: "));
  const Tensor zero = leaf({0});
  FirstNonFinite product;
  backward(sum(sqrt(zero * zero)));  // the vjp of mul computes infinity * 0
  CHECK_THAT(product.text(), StartsWith("backward of sqrt: div [1] float64 is inf at [0]: "));
  CHECK_THAT(product.text(), Contains("; which led to backward of mul: mul [1] float64 is"));
}

TEST_CASE("the gradients of a backward kernel, which calls no op, are checked") {
  const Op op({.name = "test.kernel", .samples = [](SampleGen&) { return Samples{}; }});
  const Tensor x = leaf({1, 2});
  const Tensor y = record(op, {x}, tensor({3, 4}, float64), [](const Vjp&) -> Grads {
    return {tensor({5, std::nan("")}, float64)};
  });
  FirstNonFinite finder;
  grad(y, x, {.grad_output = tensor({6, 7}, float64)});
  CHECK(finder.text() ==
        "backward of test.kernel: gradient of input 0 [2] float64 is nan at [1]: the gradient of "
        "the result [2] float64 is 7 there, 6 to 7; input 0 [2] float64 is 2 there, 1 to 2");
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
  CHECK(!finder.found());
  CHECK_THAT(finder.text(),
             StartsWith("exp [2] float64 is nan at [0]: input 0 [2] float64 is nan"));
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
    CHECK(inner.found());
  }
  CHECK(!outer.found());
  log(bad);
  CHECK(outer.found());
}

}  // namespace
