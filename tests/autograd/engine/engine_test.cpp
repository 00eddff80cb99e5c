// Tests of the engine: accumulation of gradients, modes, errors, and graphs too deep for recursion.
#include <thread>

#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;

TEST_CASE("grad touches no .grad; backward fills only leaves and retained results") {
  const Tensor x = leaf({2}), w = leaf({5});
  const Tensor h = (x * w).retain_grad();
  const Tensor y = h * h;
  CHECK(values(grad(y, {x}, {.retain_graph = true})[0]) == V{100});
  CHECK(!x.grad().defined());
  CHECK(!h.grad().defined());
  backward(y, {.retain_graph = true});
  CHECK(values(x.grad()) == V{100});
  CHECK(values(w.grad()) == V{40});
  CHECK(values(h.grad()) == V{20});
  backward(y);
  CHECK(values(h.grad()) == V{40});  // .grad of a retained tensor accumulates, too
  CHECK_THROWS_WITH(y.grad(),
                    "grad: this [1] tensor is the result of mul, whose gradient is not kept: call "
                    "retain_grad() before backward()");
  CHECK_THROWS_WITH(
      tensor({1}).retain_grad(),
      "retain_grad: no gradient flows to this [1] tensor; call requires_grad_() on a leaf first");
}

TEST_CASE("each .grad is row-major and shares its memory with no other tensor") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4}), start = ones({2}, float64);
  const Tensor h = (a + b).retain_grad();
  backward(h + 0.0, {.grad_output = start});
  const std::vector<Tensor> grads = {a.grad(), b.grad(), h.grad(), start};
  for (std::size_t i = 0; i < grads.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(!grads[i].shares_storage(grads[j]));
  fill_(a.grad(), 7);
  CHECK(values(b.grad()) == V{1, 1});
  CHECK(values(start) == V{1, 1});
  const Tensor x = leaf({1, 2}), m = ones({2, 3}, float64).requires_grad_();
  backward(sum(x));  // the gradient is an expanded scalar
  backward(sum(mT(m) * tensor({{1, 2}, {3, 4}, {5, 6}}, float64)));
  CHECK(x.grad().is_contiguous());
  CHECK(m.grad().is_contiguous());
  CHECK(values(m.grad()) == V{1, 3, 5, 2, 4, 6});
  fill_(slice(x.grad(), 0, 0, 1), 5);
  CHECK(values(x.grad()) == V{5, 1});
  const Tensor y = leaf({3});
  backward(y * 2.0 + y * y, {.create_graph = true});  // y.grad() stays differentiable
  CHECK(values(grad(y.grad(), y)) == V{2});
}

TEST_CASE("the gradients of matmul's and linear's weights are not copied") {
  const Index n = 256;
  const Tensor w = ones({n, n}, float64).requires_grad_(), x = ones({4, n}, float64);
  for (const bool is_linear : {false, true}) {
    w.zero_grad();
    const Tensor y = is_linear ? linear(x, w, {}) : matmul(x, w);
    const double* given = nullptr;
    auto hook = w.register_hook([&](const Tensor& g) {
      given = g.data<double>();
      return Tensor();
    });
    backward(sum(y * y));
    hook.remove();
    CHECK(w.grad().data<double>() == given);
  }
}

TEST_CASE("NoGrad nests, survives exceptions and is per thread") {
  const Tensor x = leaf({2});
  const auto records = [&] { return (x * x).requires_grad(); };
  CHECK(records());
  {
    const NoGrad outer;
    CHECK(!records());
    {
      const GradMode on(true);
      CHECK(records());
      const NoGrad inner;
      CHECK(!records());
    }
    CHECK(!records());
    bool other_thread = false;
    std::thread([&] { other_thread = (ones({1}).requires_grad_() * 2.0).requires_grad(); }).join();
    CHECK(other_thread);
  }
  CHECK(records());
  try {
    const NoGrad guard;
    throw 1;
  } catch (int) {
  }
  CHECK(records());
  CHECK_THROWS(backward(sum(x * x), {.grad_output = ones({5}, float64), .create_graph = true}));
  CHECK(grad_enabled());
}

TEST_CASE("a second backward through a freed graph is an error; retain_graph allows it") {
  const Tensor x = leaf({3});
  const Tensor y = x * x;
  backward(y, {.retain_graph = true});
  backward(y);
  CHECK(values(x.grad()) == V{12});
  CHECK_THROWS_WITH(
      backward(y),
      "backward: the graph behind mul [1] was freed by an earlier backward pass (or by one that "
      "ended with an error); pass retain_graph = true to that call, or compute the result again");
  CHECK(values(x.grad()) == V{12});
  const Tensor failing = x * 2.0;
  failing.register_hook([](const Tensor&) -> Tensor { throw ValueError("in the hook"); });
  const Tensor z = failing * 3.0;
  CHECK_THROWS_WITH(backward(z), "in the hook");
  CHECK_THROWS_WITH(backward(z), Contains("or by one that ended with an error"));
}

TEST_CASE("errors of grad and backward state what is missing") {
  const Tensor x = leaf({1, 2}), unused = leaf({3});
  CHECK_THROWS_WITH(grad(sum(x), {unused}),
                    "grad: the result does not depend on tensor 0 of wrt, [1]; allow_unused = true "
                    "returns gradient 0 for it");
  CHECK(values(grad(sum(x), {unused, x}, {.allow_unused = true})[0]) == V{0});
  CHECK_THROWS_WITH(grad(sum(x), {tensor({1}, float64)}),
                    "grad: tensor 0 of wrt, [1], does not require grad; call requires_grad_() on "
                    "it before you compute the result");
  CHECK_THROWS_WITH(
      backward(x * 2.0),
      "backward: a tensor of shape [2] needs .grad_output of that shape; only a tensor of one "
      "element may omit it");
  CHECK_THROWS_WITH(grad(x * 2.0, {x}, {.grad_output = ones({3}, float64)}),
                    "grad: needs a grad_output of the tensor's shape [2], got [3]");
  CHECK_THROWS_WITH(grad(x * 2.0, {x}, {.grad_output = ones({2})}),
                    "grad: needs a grad_output of the tensor's dtype float64, got float32");
  CHECK_THROWS_WITH(
      backward(sum(x.detach())),
      "backward: the tensor of shape [] does not depend on a tensor that requires grad: it is "
      "constant, detached, computed under NoGrad, or a gradient computed without create_graph = "
      "true");
  const Tensor constant = grad(sum(x * 3.0), x, {.create_graph = true});
  for (const Tensor& g : {constant, grad(sum(x * x), x)})
    CHECK(message_of([&] { grad(g, x, {.grad_output = ones_like(g)}); }) ==
          "grad: the tensor of shape [2] does not depend on a tensor that requires grad: it is "
          "constant, detached, computed under NoGrad, or a gradient computed without create_graph "
          "= true");
  CHECK_THROWS_WITH((x * 2.0).requires_grad_(),
                    "requires_grad_: this tensor is the result of mul; for its gradient call "
                    "retain_grad() or grad(y, {x}), or detach() it first");
  CHECK_THROWS_WITH(zeros({2}, int64).requires_grad_(),
                    "requires_grad_: needs float32 or float64, got int64");
}

TEST_CASE("a chain of 1,000,000 ops is built, walked and freed, also without a backward pass") {
  const auto chain = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < (kSanitized ? 20000 : 500000); ++i) y = (y + x) * 0.5;
    return y;
  };
  const Tensor x = tensor(1, float64).requires_grad_();
  {
    const Tensor y = chain(x);
    backward(y);  // dy/dx = 1, because each step averages y and x
    CHECK(x.grad().item() == Approx(1).epsilon(1e-15));
  }
  { const Tensor dropped = chain(x); }
  { const Tensor mine = grad(chain(x), {x}, {.retain_graph = true})[0]; }
}

// Observer that runs a backward pass for each op that it sees.
struct BackwardObserver : OpObserver {
  explicit BackwardObserver(Tensor of) : x(std::move(of)) {}
  void saw(const Op&, const Inputs&, const Tensor&) override {
    const GradMode recording(true);
    backward(sum(x));
    ++passes;
  }
  Tensor x;
  int passes = 0;
};

TEST_CASE("an observer may run backward passes, which add to the same gradients") {
  const bool same = GENERATE(true, false);
  const Tensor x = leaf({1, 2}), other = leaf({3});
  std::vector<int> passes(3, 0);
  std::vector<std::thread> threads;
  for (int& n : passes)
    threads.emplace_back([&] {
      BackwardObserver observer(same ? x : other);
      for (int i = 0; i < 20; ++i) backward(sum(2.0 * x));
      n = observer.passes;
    });
  for (std::thread& t : threads) t.join();
  const double nested = passes[0] + passes[1] + passes[2], outer = 2 * 20 * 3;
  CHECK(nested > outer);
  CHECK(values(x.grad()) == (same ? V{nested + outer, nested + outer} : V{outer, outer}));
  if (!same) CHECK(values(other.grad()) == V{nested});
}

TEST_CASE("backward adds to .grad in place, unless the write would change another value") {
  const Tensor x = leaf({1, 2});
  const auto place = [&] { return x.grad().data<double>(); };
  backward(sum(3.0 * x));
  const double* const first = place();
  const std::uint64_t bytes = pool_stats().live_bytes;
  backward(sum(x));
  CHECK(place() == first);
  CHECK(x.grad().version() == 1);
  CHECK(pool_stats().live_bytes == bytes);
  for (const bool is_view : {false, true}) {  // the handle and the view keep their values
    const Tensor kept = is_view ? slice(x.grad(), 0, 0, 2) : x.grad();
    const V before = values(kept);
    backward(sum(x));
    CHECK(values(kept) == before);
    CHECK(values(x.grad()) == V{before[0] + 1, before[1] + 1});
    CHECK(!x.grad().shares_storage(kept));
  }
  const double* const last = place();
  backward(sum(x), {.create_graph = true});
  CHECK(place() != last);
  // A .grad that has a graph, or is a leaf, stays part of it.
  for (const Tensor& given : {leaf({1, 1}), leaf({1, 1}) * 1.0}) {
    x.set_grad(given);
    backward(sum(x));
    CHECK(values(x.grad()) == V{2, 2});
    CHECK(values(given) == V{1, 1});
    x.set_grad(leaf({5, 5}) * 1.0);
    backward(sum(x));
    CHECK(values(x.grad()) == V{6, 6});
  }
  // A hook that returns .grad itself as the gradient.
  x.zero_grad();
  backward(sum(x));
  x.register_hook([&](const Tensor&) { return x.grad(); });
  backward(sum(x));
  CHECK(values(x.grad()) == V{2, 2});
}

// Returns a loss that depends on weights w and b, which all threads share. A hook calls grad()
// during the backward pass.
Tensor loss_of_shared(const Tensor& w, const Tensor& b, double scale) {
  const Tensor x = full({3, 4}, scale, float64);
  const Tensor h = tanh(linear(x, w, b));
  h.register_hook([w](const Tensor& g) {
    const GradMode recording(true);
    return (g + 0.0 * sum(grad(sum(w * w), w))).detach();
  });
  return sum(softmax(linear(layer_norm(h, 4), w, b), -1) * h);
}

TEST_CASE("8 threads differentiate with the same weights") {
  Generator g(3);
  const Tensor w = randn({4, 4}, float64, g).requires_grad_();
  const Tensor b = randn({4}, float64, g).requires_grad_();
  constexpr std::size_t kThreads = 8;
  std::vector<V> alone(kThreads), together(kThreads);
  const auto work = [&](std::size_t i, int repeats, V& out) {
    for (int r = 0; r < repeats; ++r) {
      const Tensor loss = loss_of_shared(w, b, 0.1 * double(i + 1));
      out = values(grad(loss, {w, b}, {.retain_graph = true})[0]);
      backward(loss);  // all threads add to the same .grad
    }
  };
  for (std::size_t i = 0; i < kThreads; ++i) work(i, 1, alone[i]);
  const Tensor once = w.grad();
  w.zero_grad(), b.zero_grad();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] { work(i, 50, together[i]); });
  for (std::thread& t : threads) t.join();
  for (std::size_t i = 0; i < kThreads; ++i) CHECK(together[i] == alone[i]);
  CHECK(allclose(w.grad(), 50.0 * once, 1e-12, 1e-12));
}

TEST_CASE("backward releases saved values as soon as it has used them") {
  const Index n = 1 << 16;
  const std::uint64_t one = n * sizeof(double), before = pool_stats().live_bytes;
  const Tensor x = ones({n}, float64).requires_grad_();
  Tensor y = x;
  for (int i = 0; i < 50; ++i) y = exp(y * 1e-3);
  std::uint64_t at_the_end = 0;
  x.register_hook([&](const Tensor&) {
    at_the_end = pool_stats().live_bytes;
    return Tensor();
  });
  y = sum(y);
  CHECK(pool_stats().live_bytes - before >= 50 * one);
  backward(y);
  CHECK(at_the_end - before <= 4 * one);  // x, its gradient, and the tensors of the last vjp
  CHECK(pool_stats().live_bytes - before <= 3 * one);
  backward(sum(exp(x)), {.retain_graph = true});
}

}  // namespace
