// + - * / maximum minimum, with broadcasting.
#include <functional>

#include "autograd/graph/graph.h"
#include "autograd/kernels/simd/elementwise.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/operands.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {

using detail::scalar_like;
using detail::wrapping;

namespace {

template <class F>
SampleFn broadcasting_samples(F f);
template <class F>
SampleFn extremum_samples(F f);

const Op kAdd({.name = "add",
               .saves = Saves::kNothing,
               .broadcasts = true,
               .samples = broadcasting_samples([](auto a, auto b) { return a + b; })});
const Op kSub({.name = "sub",
               .saves = Saves::kNothing,
               .broadcasts = true,
               .samples = broadcasting_samples([](auto a, auto b) { return a - b; })});
const Op kMul({.name = "mul",
               .saves = Saves::kInputs,
               .broadcasts = true,
               .samples = broadcasting_samples([](auto a, auto b) { return a * b; })});
const Op kDiv({.name = "div",
               .saves = Saves::kBoth,
               .broadcasts = true,
               .samples = broadcasting_samples([](auto a, auto b) { return a / b; })});

Samples neg_samples(SampleGen& g);
const Op kNeg({.name = "neg", .saves = Saves::kNothing, .samples = neg_samples});

const Op kMaximum({.name = "maximum",
                   .saves = Saves::kInputs,
                   .broadcasts = true,
                   .samples = extremum_samples(maximum)});
const Op kMinimum({.name = "minimum",
                   .saves = Saves::kInputs,
                   .broadcasts = true,
                   .samples = extremum_samples(minimum)});

// Returns the gradients of the two operands x and y of maximum or minimum. is_x is true where x is
// larger (smaller) than y or is NaN. is_y is true where y is larger (smaller) than x or is NaN. The
// masks are equal where x and y are equal or both are NaN. There, each receives half of `grad`.
Grads share(const Tensor& grad, const Tensor& is_x, const Tensor& is_y) {
  const Tensor shared = where(eq(is_x, is_y), grad * 0.5, grad);
  return {masked_fill(shared, lt(is_x, is_y), 0), masked_fill(shared, lt(is_y, is_x), 0)};
}
Tensor is_nan(const Tensor& x) { return ne(x, x); }

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  return record(kAdd, {a, b},
                elementwise<NumericDomain>(kAdd, a, b, wrapping(std::plus<>()), kernels::simd::add),
                [](const Vjp& v) -> Grads {
                  return {v.grad, v.grad};
                });
}

Tensor operator-(const Tensor& a, const Tensor& b) {
  return record(kSub, {a, b}, elementwise<NumericDomain>(kSub, a, b, wrapping(std::minus<>())),
                [](const Vjp& v) -> Grads {
                  return {v.grad, v.needs(1) ? -v.grad : Tensor()};
                });
}

Tensor operator*(const Tensor& a, const Tensor& b) {
  return record(kMul, {a, b}, elementwise<NumericDomain>(kMul, a, b, wrapping(std::multiplies<>())),
                [](const Vjp& v) -> Grads {
                  return {v.needs(0) ? v.grad * v.input(1) : Tensor(),
                          v.needs(1) ? v.grad * v.input(0) : Tensor()};
                });
}

Tensor operator/(const Tensor& a, const Tensor& b) {
  check<DTypeError>(a.dtype() != int64, kDiv,
                    "cannot divide int64 tensors; convert them with to(x, dtype)");
  return record(kDiv, {a, b}, elementwise(kDiv, a, b, [](auto x, auto y) { return x / y; }),
                [](const Vjp& v) -> Grads {
                  const Tensor ga = v.grad / v.input(1);
                  return {ga, v.needs(1) ? -(ga * v.output()) : Tensor()};
                });
}

Tensor operator-(const Tensor& x) {
  return record(kNeg, {x}, elementwise(kNeg, x, [](auto v) { return -v; }),
                [](const Vjp& v) -> Grads { return {-v.grad}; });
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  return record(kMaximum, {a, b},
                elementwise<NumericDomain>(kMaximum, a, b,
                                           [](auto x, auto y) {
                                             // NaN if x or y is NaN, as in PyTorch.
                                             return x > y || x != x ? x : y;
                                           }),
                [](const Vjp& v) -> Grads {
                  const Tensor &x = v.input(0), &y = v.input(1);
                  return share(v.grad, logical_or(gt(x, y), is_nan(x)),
                               logical_or(gt(y, x), is_nan(y)));
                });
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return record(kMinimum, {a, b},
                elementwise<NumericDomain>(kMinimum, a, b,
                                           [](auto x, auto y) { return x < y || x != x ? x : y; }),
                [](const Vjp& v) -> Grads {
                  const Tensor &x = v.input(0), &y = v.input(1);
                  return share(v.grad, logical_or(lt(x, y), is_nan(x)),
                               logical_or(lt(y, x), is_nan(y)));
                });
}

Tensor operator+(const Tensor& a, double b) { return a + scalar_like(kAdd, a, b); }
Tensor operator+(double a, const Tensor& b) { return scalar_like(kAdd, b, a) + b; }
Tensor operator-(const Tensor& a, double b) { return a - scalar_like(kSub, a, b); }
Tensor operator-(double a, const Tensor& b) { return scalar_like(kSub, b, a) - b; }
Tensor operator*(const Tensor& a, double b) { return a * scalar_like(kMul, a, b); }
Tensor operator*(double a, const Tensor& b) { return scalar_like(kMul, b, a) * b; }
Tensor operator/(const Tensor& a, double b) { return a / scalar_like(kDiv, a, b); }
Tensor operator/(double a, const Tensor& b) { return scalar_like(kDiv, b, a) / b; }

namespace {

// Returns samples in which no value of one operand is near a value of the other, so that no step of
// a finite difference crosses a kink.
template <class F>
SampleFn extremum_samples(F f) {
  return [f](SampleGen& g) -> Samples {
    const auto two = [f](Args t) { return f(t[0], t[1]); };
    const SkipReason ties = SkipReason::kEqualOperands;
    return {{"same shape", two, {g.apart({2, 3}), g.apart({2, 3}) + 0.03}, ties},
            {"two-sided", two, {g.apart({3, 1}), g.apart({1, 4}) + 0.03}, ties},
            {"size 0", two, {g.normal({0}), g.normal({0})}}};
  };
}

Samples neg_samples(SampleGen& g) {
  return {{"x", [](Args t) { return -t[0]; }, {g.normal({2, 3})}}};
}

// Returns the samples of a broadcasting op of two operands. The second operand is not near 0.
template <class F>
SampleFn broadcasting_samples(F f) {
  return [f](SampleGen& g) -> Samples {
    const auto two = [f](Args t) { return f(t[0], t[1]); };
    return {{"same shape", two, {g.normal({2, 3}), g.uniform({2, 3}, 0.5, 2)}},
            {"two-sided", two, {g.normal({3, 1}), g.uniform({1, 4}, 0.5, 2)}},
            {"lower rank", two, {g.normal({4}), g.uniform({2, 3, 4}, 0.5, 2)}},
            {"scalar", two, {g.normal({2, 2}), g.uniform({}, 0.5, 2)}},
            {"size 0", two, {g.normal({0, 3}), g.uniform({1, 3}, 0.5, 2)}},
            {"x with itself", [f](Args t) { return f(t[0], t[0]); }, {g.uniform({3}, 0.5, 2)}}};
  };
}

}  // namespace

}  // namespace heed::autograd
