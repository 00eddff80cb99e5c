// Tests of hooks: their order, what they may change and call, and calls of grad() inside a hook.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;

TEST_CASE(
    "hooks run in order of registration, each on the result of the one before, once per pass") {
  const Tensor x = leaf({1, 2});
  std::vector<V> seen;
  auto first = x.register_hook([&](const Tensor& g) {
    seen.push_back(values(g));
    return g * 10.0;
  });
  x.register_hook([&](const Tensor& g) {
    seen.push_back(values(g));
    return Tensor();  // undefined: the gradient stays as it is
  });
  backward(sum(x * x + x));  // the hook must receive the sum over all uses of x
  CHECK(seen == std::vector<V>{{3, 5}, {30, 50}});
  CHECK(values(x.grad()) == V{30, 50});
  first.remove();
  first.remove();
  HookHandle().remove();
  seen.clear();
  x.zero_grad();
  backward(sum(x));
  CHECK(seen == std::vector<V>{{1, 1}});
  CHECK(values(x.grad()) == V{1, 1});
}

TEST_CASE(
    "a hook on a result changes the gradients before it, and the one that retain_grad keeps") {
  const Tensor x = leaf({3});
  const Tensor h = (x * 2.0).retain_grad();
  h.register_hook([](const Tensor& g) { return g * 100.0; });
  backward(h * h);
  CHECK(values(h.grad()) == V{1200});
  CHECK(values(x.grad()) == V{2400});
}

TEST_CASE("hooks may remove themselves, call the engine, and must keep shape and dtype") {
  const Tensor x = leaf({3});
  int calls = 0;
  std::optional<HookHandle> handle;
  handle.emplace(x.register_hook([&](const Tensor&) {
    ++calls;
    handle->remove();
    // Recording is disabled in hooks unless create_graph is set, as in PyTorch.
    const GradMode recording(true);
    const Tensor t = leaf({4});  // grad() runs inside backward()
    return grad(t * t, t);
  }));
  backward(x * x);
  CHECK(values(x.grad()) == V{8});
  backward(x * x);
  CHECK(calls == 1);
  CHECK(values(x.grad()) == V{14});
  const Tensor y = leaf({1, 2});
  y.register_hook([](const Tensor&) { return ones({3}, float64); });
  CHECK_THROWS_WITH(backward(sum(y)),
                    "hook: returned [3] float64 for a gradient of [2] float64; needs the same "
                    "shape and dtype, or an undefined tensor");
  CHECK_THROWS_WITH(
      tensor({1}).register_hook([](const Tensor& g) { return g; }),
      "register_hook: no gradient flows to this [1] tensor; call requires_grad_() on a "
      "leaf first");
  CHECK_NOTHROW(backward(x * x));  // the backward pass that threw left no state
}

TEST_CASE("a nested walk over the same graph does not disturb the outer one") {
  const Tensor x = leaf({2});
  const Tensor h = x * x, y = h * h;
  Tensor inside;
  h.register_hook([&](const Tensor&) {
    if (!inside.defined())
      inside = zeros({1}, float64), inside = grad(h, {x}, {.retain_graph = true})[0];
    return Tensor();
  });
  backward(y);
  CHECK(values(inside) == V{4});
  CHECK(values(x.grad()) == V{32});  // y = x^4, so dy/dx = 4 x^3
}

TEST_CASE(
    "a nested walk that frees the graph of the outer one is an error, not a missing gradient") {
  const Tensor x = leaf({2});
  const Tensor h = x + x, y = h + h;
  bool done = false;
  y.register_hook([&](const Tensor&) {
    if (!std::exchange(done, true)) backward(h);
    return Tensor();
  });
  CHECK_THROWS_AS(backward(y), ValueError);
}

}  // namespace
