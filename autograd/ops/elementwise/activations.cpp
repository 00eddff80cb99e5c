// relu and the fused activations gelu, gelu_tanh and silu. Each fused op has a forward kernel, a
// backward kernel and a definition.
#include <cmath>
#include <numbers>

#include "autograd/graph/graph.h"
#include "autograd/kernels/simd/elementwise.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

using std::erf, std::exp, std::tanh;  // for float and double

template <class F>
SampleFn activation_samples(F f) {
  return [f](SampleGen& g) -> Samples {
    const auto one = [f](Args t) { return f(t[0]); };
    return {{"matrix", one, {g.apart({3, 4})}},
            {"rank 0", one, {g.normal({})}},
            {"size 0", one, {g.normal({0, 2})}}};
  };
}
const Op kRelu({.name = "relu", .saves = Saves::kInputs, .samples = activation_samples(relu)});
const Op kGelu({.name = "gelu", .saves = Saves::kInputs, .samples = activation_samples(gelu)});
const Op kGeluTanh({.name = "gelu_tanh",
                    .saves = Saves::kInputs,
                    .samples = activation_samples(gelu_tanh)});
const Op kSilu({.name = "silu", .saves = Saves::kInputs, .samples = activation_samples(silu)});

constexpr double kSqrt2OverPi = 2 * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
constexpr double kCubic = 0.044715;

// If x is Tracked, adds rounding noise for the error of the float32 kernel of gelu. This kernel is
// an approximation with errors of up to 8 ulp (autograd/kernels/README.md).
template <class T>
T as_float32_gelu(T x) {
  if constexpr (std::is_same_v<T, Tracked>) x.round(8);
  return x;
}

// Runs and records a fused op of one operand. value(x) and its derivative slope(x) are functions of
// scalars. The definition is a function of tensors. `forward` and `backward` are optional SIMD
// kernels for float32.
template <class Value, class Slope, class Definition>
Tensor fused(const Op& op, const Tensor& x, Value value, Slope slope, Definition definition,
             SimdMap forward = nullptr, SimdZip backward = nullptr) {
  return record(
      op, {x}, elementwise(op, x, value, forward),
      [definition](Args t) { return definition(t[0]); },
      [&op, slope, backward](const Vjp& v) -> Grads {
        const auto f = [slope](auto g, auto u) { return decltype(g)(g * slope(u)); };
        return {elementwise(op, v.grad, v.input(0), f, backward)};
      });
}

}  // namespace

Tensor relu(const Tensor& x) {
  const auto f = [](auto v) { return v < decltype(v)(0) ? decltype(v)(0) : v; };  // NaN for NaN
  return record(kRelu, {x}, elementwise(kRelu, x, f), [](const Vjp& v) -> Grads {
    return {masked_fill(v.grad, le(v.input(0), 0.0), 0)};
  });
}

Tensor gelu(const Tensor& x) {
  const auto value = [](auto v) {
    using T = decltype(v);
    return as_float32_gelu(T(0.5) * v * (T(1) + erf(v * T(std::numbers::sqrt2 / 2))));
  };
  const auto slope = [](auto v) {  // Phi(v) + v phi(v), where phi is the derivative of Phi
    using T = decltype(v);
    return T(0.5) * (T(1) + erf(v * T(std::numbers::sqrt2 / 2))) +
           v * exp(T(-0.5) * v * v) * T(0.5 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  };
  const auto definition = [](const Tensor& u) {
    return 0.5 * u * (1.0 + erf(u * (std::numbers::sqrt2 / 2)));
  };
  return fused(kGelu, x, value, slope, definition, kernels::simd::gelu,
               kernels::simd::gelu_backward);
}

Tensor gelu_tanh(const Tensor& x) {
  const auto value = [](auto v) {
    using T = decltype(v);
    return T(0.5) * v * (T(1) + tanh(T(kSqrt2OverPi) * (v + T(kCubic) * v * v * v)));
  };
  const auto slope = [](auto v) {
    using T = decltype(v);
    const T t = tanh(T(kSqrt2OverPi) * (v + T(kCubic) * v * v * v));
    return T(0.5) * (T(1) + t) +
           T(0.5) * v * (T(1) - t * t) * T(kSqrt2OverPi) * (T(1) + T(3 * kCubic) * v * v);
  };
  const auto definition = [](const Tensor& u) {
    return 0.5 * u * (1.0 + tanh(kSqrt2OverPi * (u + kCubic * (u * u * u))));
  };
  return fused(kGeluTanh, x, value, slope, definition, kernels::simd::gelu_tanh,
               kernels::simd::gelu_tanh_backward);
}

Tensor silu(const Tensor& x) {
  const auto value = [](auto v) {
    using T = decltype(v);
    return v / (T(1) + exp(-v));
  };
  const auto slope = [](auto v) {
    using T = decltype(v);
    const T s = T(1) / (T(1) + exp(-v));
    return s + v * s * (T(1) - s);
  };
  const auto definition = [](const Tensor& u) { return u * sigmoid(u); };
  return fused(kSilu, x, value, slope, definition, kernels::simd::silu,
               kernels::simd::silu_backward);
}

}  // namespace heed::autograd
