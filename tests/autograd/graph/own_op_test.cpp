// Tests which outputs a user-defined op may return, and what its vjp may return.
#include "autograd/autograd.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

// Properties of an op that exists only during one test; its destructor removes it from the
// registry.
OpSpec own_op() {
  return {.name = "own", .saves = Saves::kInputs, .samples = [](SampleGen& g) {
            return Samples{{"sum", [](Args t) { return sum(t[0]); }, {g.normal({2, 3})}}};
          }};
}

// Returns the sum over i of (1 + i * step) * xs[i]. The number of inputs is not fixed, so the vjp
// returns a vector.
Tensor weighted_sum(const Op& op, Args xs, double step) {
  Tensor y;
  {
    const NoGrad no_grad;
    y = zeros_like(xs[0]);
    for (std::size_t i = 0; i < xs.size(); ++i) y = y + xs[i] * (1 + double(i) * step);
  }
  return record(op, xs, y, [n = xs.size(), step](const Vjp& v) {
    std::vector<Tensor> grads;
    for (std::size_t i = 0; i < n; ++i) grads.push_back(v.grad * (1 + double(i) * step));
    return grads;
  });
}

TEST_CASE("a vjp returns a std::vector<Tensor>") {
  const Op op(own_op());
  const Tensor a = ones({2, 3}, float64).requires_grad_(), b = ones({2, 3}, float64),
               c = ones({2, 3}, float64).requires_grad_();
  const auto grads = grad(sum(weighted_sum(op, std::vector{a, b, c}, 2)), {a, c});
  CHECK(allclose(grads[0], ones({2, 3}, float64)));
  CHECK(allclose(grads[1], full({2, 3}, 5, float64)));
  const CheckReport report = gradcheck([&](Args t) { return weighted_sum(op, t, 3); },
                                       std::vector{b, b * 2.0, b * 3.0}, {.order = 2});
  INFO(report);
  CHECK(report.ok());
}

// Returns x itself: as gradient reversal, or as a fused op with the definition x. `other` is an
// input that does not change the result.
Tensor same(const Op& op, const Tensor& x, const Tensor& other, bool fused) {
  if (!fused) return record(op, {x, other}, x, [](const Vjp& v) { return Grads{-v.grad, {}}; });
  return record(
      op, {x, other}, x, [](Args t) { return t[0]; },
      [](const Vjp& v) {
        return Grads{v.grad, {}};
      });
}

TEST_CASE("an op may return its own input, which keeps its node") {
  const Op op(own_op());
  const bool fused = GENERATE(false, true);
  const DType dtype = GENERATE(float32, float64);
  const Tensor none, w = tensor({3, 4}, dtype), expected = fused ? w : -w;
  const Tensor x = tensor({1, 2}, dtype).requires_grad_();
  const Tensor y = same(op, x, none, fused);
  CHECK(!y.is_same(x));
  CHECK(y.shares_storage(x));
  CHECK(x.is_leaf());
  CHECK(!y.is_leaf());
  backward(sum(y * w));
  CHECK(allclose(x.grad(), expected));
  // Applied twice, to the result of an op, and differentiably.
  const Tensor h = x * 2.0, twice = same(op, same(op, h, none, fused), none, fused);
  const auto g = grad(sum(twice * w * x), {h, x}, {.create_graph = true});
  CHECK(allclose(g[0], w * x));
  CHECK(allclose(g[1], 4.0 * w * x));
  CHECK(allclose(grad(sum(same(op, x, none, fused) * w), x, {.create_graph = true}), expected));
  // An input that does not require grad stays constant, and so does the result under NoGrad.
  const Tensor constant = tensor({1, 2}, dtype);
  CHECK(same(op, constant, x, fused).requires_grad());
  CHECK(!constant.requires_grad());
  const NoGrad no_grad;
  CHECK(!same(op, x, none, fused).requires_grad());
  CHECK(x.requires_grad());
}

}  // namespace
