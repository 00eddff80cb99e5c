// softmax and log_softmax along one axis.
#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

Samples softmax_samples(SampleGen& g);
Samples log_softmax_samples(SampleGen& g);

const Op kSoftmax({.name = "softmax",
                   .saves = Saves::kOutput,
                   .samples = softmax_samples,
                   .no_sizes = needs_axis()});
const Op kLogSoftmax({.name = "log_softmax",
                      .saves = Saves::kInputs,
                      .samples = log_softmax_samples,
                      .no_sizes = needs_axis()});

constexpr Index kExpCost = 2;  // cost of a vectorized exponential, in additions

// Returns a new tensor of x's shape. Calls row(y, y_stride, x, x_stride, n) for every line of n
// elements along `axis`.
template <class Row>
Tensor for_each_row(const Op& op, const Tensor& x, int axis, Row row) {
  Tensor y = empty_like(x);
  dispatch_floating(x.dtype(), op, [&]<class T> {
    for_each_line(y.mutable_data<T>(), y.layout(), x.data<T>(), x.layout(), axis, kExpCost, row);
  });
  return y;
}

}  // namespace

Tensor softmax(const Tensor& x, Index axis) {
  const int a = normalized_axis(kSoftmax, x.shape(), axis);
  const Tensor y = for_each_row(kSoftmax, x, a, [](auto... row) { kernels::softmax_row(row...); });
  return record(kSoftmax, {x}, y, [a](const Vjp& v) -> Grads {
    const Tensor p = v.output(), gp = v.grad * p;  // vjp: g*p - p*sum(g*p)
    return {gp - p * sum(gp, {a}, true)};
  });
}

Tensor log_softmax(const Tensor& x, Index axis) {
  const int a = normalized_axis(kLogSoftmax, x.shape(), axis);
  const Tensor y = for_each_row(kLogSoftmax, x, a,
                                [](auto... row) { kernels::reference::log_softmax_row(row...); });
  return record(kLogSoftmax, {x}, y, [a](const Vjp& v) -> Grads {
    const Tensor& u = v.input(0);  // exp(output) would have the rounding error of the output
    const Tensor g = v.grad - softmax(u, a) * sum(v.grad, {a}, true);
    if (u.shape()[a] == 0) return {g};
    return {masked_fill(g, eq(max(u.detach(), {a}, true), -kInf), 0)};  // 0 if all are -inf
  });
}

namespace {

Samples calls_of(Tensor (*f)(const Tensor&, Index), SampleGen& g) {
  return {{"last axis", [f](Args t) { return f(t[0], -1); }, {g.normal({3, 5})}},
          {"first axis", [f](Args t) { return f(t[0], 0); }, {g.normal({4, 2, 3})}},
          {"size 1", [f](Args t) { return f(t[0], 1); }, {g.normal({3, 1})}},
          {"size 0", [f](Args t) { return f(t[0], 0); }, {g.normal({2, 0})}}};
}

Samples softmax_samples(SampleGen& g) {
  Samples samples = calls_of(softmax, g);
  const Tensor mask = from_data(std::vector<bool>{true, false, true, true, true, true}, {2, 3});
  samples.push_back({"masked, one row fully",
                     [mask](Args t) { return softmax(masked_fill(t[0], mask, -kInf), -1); },
                     {g.normal({2, 3})}});
  return samples;
}

Samples log_softmax_samples(SampleGen& g) { return calls_of(log_softmax, g); }

}  // namespace

}  // namespace heed::autograd
