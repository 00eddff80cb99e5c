// Functions of one operand: pow, exp, log, sqrt, rsqrt, abs, clamp, and conversion of the dtype.
// activations.cpp has relu and the smooth functions, such as tanh.
#include <cmath>
#include <functional>

#include "autograd/graph/graph.h"
#include "autograd/kernels/simd/elementwise.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/operands.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

// Overloads for float and double.
using std::abs, std::exp, std::log, std::pow, std::sqrt;

// Returns samples of f. The inputs are drawn by `draw`.
template <class F, class Draw>
SampleFn unary_samples(F f, Draw draw);
constexpr auto kNormal = &SampleGen::normal, kApart = &SampleGen::apart;
constexpr auto kPositive = [](SampleGen& g, const Shape& s) { return g.uniform(s, 0.5, 3); };

const Op kPow({.name = "pow",
               .saves = Saves::kInputs,
               .samples = unary_samples([](auto x) { return pow(x, 2.5); }, kPositive)});
const Op kExp({.name = "exp",
               .saves = Saves::kOutput,
               .samples = unary_samples([](auto x) { return exp(x); }, kNormal)});
const Op kLog({.name = "log",
               .saves = Saves::kInputs,
               .samples = unary_samples([](auto x) { return log(x); }, kPositive)});
const Op kSqrt({.name = "sqrt",
                .saves = Saves::kOutput,
                .samples = unary_samples([](auto x) { return sqrt(x); }, kPositive)});
const Op kRsqrt({.name = "rsqrt",
                 .saves = Saves::kOutput,
                 .samples = unary_samples([](auto x) { return rsqrt(x); }, kPositive)});
const Op kAbs({.name = "abs",
               .saves = Saves::kInputs,
               .samples = unary_samples([](auto x) { return abs(x); }, kApart)});
const Op kClamp({.name = "clamp",
                 .saves = Saves::kInputs,
                 .samples = unary_samples([](auto x) { return clamp(x, -0.2, 0.3); }, kApart)});

Samples to_samples(SampleGen& g);
const Op kTo({.name = "to", .saves = Saves::kNothing, .samples = to_samples});

}  // namespace

Tensor pow(const Tensor& x, double exponent) {
  const auto f = [exponent](auto v) { return decltype(v)(pow(v, decltype(v)(exponent))); };
  return record(kPow, {x}, elementwise(kPow, x, f), [exponent](const Vjp& v) -> Grads {
    if (exponent == 0) return {zeros_like(v.grad)};
    return {v.grad * (pow(v.input(0), exponent - 1) * exponent)};
  });
}

Tensor exp(const Tensor& x) {
  const auto f = [](auto v) { return exp(v); };
  return record(kExp, {x}, elementwise(kExp, x, f, kernels::simd::exp),
                [](const Vjp& v) -> Grads { return {v.grad * v.output()}; });
}

Tensor log(const Tensor& x) {
  const auto f = [](auto v) { return log(v); };
  return record(kLog, {x}, elementwise(kLog, x, f),
                [](const Vjp& v) -> Grads { return {v.grad / v.input(0)}; });
}

Tensor sqrt(const Tensor& x) {
  const auto f = [](auto v) { return sqrt(v); };
  return record(kSqrt, {x}, elementwise(kSqrt, x, f),
                [](const Vjp& v) -> Grads { return {v.grad * 0.5 / v.output()}; });
}

Tensor rsqrt(const Tensor& x) {
  const auto f = [](auto v) { return decltype(v)(1) / sqrt(v); };
  return record(kRsqrt, {x}, elementwise(kRsqrt, x, f), [](const Vjp& v) -> Grads {
    const Tensor y = v.output();
    return {v.grad * (y * y * (y * -0.5))};  // y^3 may overflow where y^3 / 2 does not
  });
}

Tensor abs(const Tensor& x) {
  const auto f = [](auto v) { return abs(v); };
  return record(kAbs, {x}, elementwise(kAbs, x, f), [](const Vjp& v) -> Grads {
    const Tensor& u = v.input(0);
    return {masked_fill(where(lt(u, 0.0), -v.grad, v.grad), eq(u, 0.0), 0)};
  });
}

Tensor clamp(const Tensor& x, double low, double high) {
  check<ValueError>(low <= high, kClamp, "needs low <= high, got ", low, " and ", high);
  const auto f = [low, high](auto v) {
    using T = decltype(v);
    return v < T(low) ? T(low) : v > T(high) ? T(high) : v;
  };
  return record(kClamp, {x}, elementwise(kClamp, x, f), [low, high](const Vjp& v) -> Grads {
    const Tensor& u = v.input(0);
    return {masked_fill(v.grad, logical_not(logical_and(ge(u, low), le(u, high))), 0)};
  });
}

Tensor to(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype || (x.dtype() == tracked64 && dtype == float64)) return x;
  check<DTypeError>(x.dtype() != tracked64 || dtype == bool8, kTo, "cannot convert ", x.dtype(),
                    " to ", dtype, "; inside a gradient check, numbers are float64 or bool8");
  Tensor y = empty(x.shape(), dtype);
  dispatch_any(x.dtype(), [&]<class From> {
    dispatch_any(dtype, [&]<class To> {
      const auto convert = [](From v) -> To {
        if constexpr (std::is_same_v<To, bool>)
          return real(v) != 0;
        else if constexpr (std::is_same_v<To, std::int64_t>)
          return checked_cast<To>(kTo, double(real(v)));
        else if constexpr (is_real(kDTypeOf<To>))
          return To(real(v));
        else
          return double(real(v));
      };
      elementwise_into<To, From>(y, convert, x);
    });
  });
  if (!is_floating(dtype)) return y;
  return record(kTo, {x}, y,
                [from = x.dtype()](const Vjp& v) -> Grads { return {to(v.grad, from)}; });
}

namespace {

template <class F, class Draw>
SampleFn unary_samples(F f, Draw draw) {
  return [f, draw](SampleGen& g) -> Samples {
    const auto one = [f](Args t) { return f(t[0]); };
    return {{"matrix", one, {std::invoke(draw, g, Shape{3, 4})}},
            {"rank 0", one, {std::invoke(draw, g, Shape{})}},
            {"size 0", one, {std::invoke(draw, g, Shape{2, 0})}}};
  };
}

Samples to_samples(SampleGen& g) {
  return {{"to float64", [](Args t) { return exp(to(t[0], float64)); }, {g.normal({2, 3})}}};
}

}  // namespace

}  // namespace heed::autograd
