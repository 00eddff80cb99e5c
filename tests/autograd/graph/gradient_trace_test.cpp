// Tests of GradientTrace: it distinguishes the causes of a missing gradient and names the op.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;

TEST_CASE("the edge where a graph is cut is named") {
  const Tensor w = leaf({1, 2}), x = leaf({3, 4});
  GradientTrace trace;
  SECTION("by detach") {
    const NameScope scope("blocks.1");
    const Tensor hidden = exp(w);
    sum(x * reshape(hidden, {2}).detach());
    CHECK(trace.why_none(w) == "blocks.1: the gradient ends at mul, whose input 1 [2] is detached");
  }
  SECTION("a detached weight itself") {
    x + w.detach();
    CHECK(trace.why_none(w) == "the gradient ends at add, whose input 1 [2] is detached");
  }
  SECTION("by NoGrad") {
    Tensor hidden;
    {
      const NoGrad guard;
      hidden = exp(w);
    }
    x* hidden;
    CHECK(trace.why_none(w) == "the gradient ends at exp, whose input 0 [2] is read under NoGrad");
  }
  SECTION("by an op that has no gradient") {
    argmax(exp(w), 0);
    CHECK(trace.why_none(w) ==
          "the path ends at exp: no differentiable op leads from its result to the loss");
  }
  SECTION("no op reads it") {
    exp(x);
    CHECK(trace.why_none(w) == "no op reads it");
  }
}

}  // namespace
