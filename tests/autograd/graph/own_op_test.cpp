// Tests what the vjp of a user-defined op may return.
#include "autograd/autograd.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

// Properties of an op that exists only during one test; its destructor removes it from the
// registry.
OpSpec own_op() {
  return {.name = "own", .saves = Saves::kNothing, .samples = [](SampleGen& g) {
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

TEST_CASE("a vjp that returns a vector of another length is an error") {
  const Op op(own_op());
  const Tensor x = ones({2}, float64).requires_grad_();
  const Tensor y = record(op, {x}, x.detach(), [](const Vjp& v) {
    return std::vector<Tensor>{v.grad, v.grad};
  });
  CHECK_THROWS_WITH(
      backward(sum(y)),
      "own: its vjp returned 2 gradients for 1 inputs; it must return one per input, {} for none");
}

}  // namespace
