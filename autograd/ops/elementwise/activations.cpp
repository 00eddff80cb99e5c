// relu, and the smooth functions tanh, sigmoid, gelu, gelu_tanh and silu. The derivative of a
// smooth function is an op of its own, because a composite of other ops would lose digits where its
// terms cancel.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "autograd/graph/graph.h"
#include "autograd/kernels/reference/smooth.h"
#include "autograd/kernels/simd/elementwise.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

namespace reference = kernels::reference;
using std::clamp, std::exp, std::tanh;  // for double

SampleFn activation_samples(Tensor (*f)(const Tensor&));
const Op kRelu({.name = "relu", .saves = Saves::kInputs, .samples = activation_samples(relu)});

double sigmoid(double x) { return reference::Sigmoid::value(x); }
using autograd::sigmoid, autograd::tanh;

// Returns 1 / (2 cosh(u / 2)). The square is the derivative of the logistic function at u. It can
// be below the smallest normal number where its product with another factor is not.
template <class X>
X root_of_logistic_slope(const X& u) {
  const X b = sigmoid(u * 0.5) * sigmoid(u * -0.5);
  return b / (1.0 - 2.0 * b);
}

// The functions, with their value and slope in float64. curvature(x) is the second derivative, for
// an x of type double or Tensor. For a Tensor it is computed from ops, so it can be differentiated
// again. x is limited where an infinite factor would meet a factor 0.
struct Sigmoid : reference::Sigmoid {
  template <class X>
  static X curvature(const X& x) {
    const X root = root_of_logistic_slope(x);
    return root * (root * -tanh(0.5 * x));
  }
};
struct Tanh : reference::Tanh {
  template <class X>
  static X curvature(const X& x) {
    return 8.0 * Sigmoid::curvature(2.0 * x);
  }
};
struct Gelu : reference::Gelu {
  template <class X>
  static X curvature(const X& x) {
    const X u = clamp(x, -40.0, 40.0), square = u * u;
    return (2.0 - square) * exp(square * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  }
};
template <class U>
struct LogisticGate : reference::LogisticGate<U> {
  template <class X>
  static X curvature(const X& x) {
    constexpr auto kLinear = double(U::kLinear), kCubic = double(U::kCubic);
    const X v = clamp(x, -800.0, 800.0), square = v * v;
    const X u = v * (kLinear + kCubic * square), du = kLinear + 3 * kCubic * square;
    const X root = root_of_logistic_slope(u);
    return root * (root * (2.0 * du + v * (6 * kCubic * v - du * du * tanh(0.5 * u))));
  }
};
using GeluTanh = LogisticGate<reference::GeluTanhU>;
using Silu = LogisticGate<reference::SiluU>;

// Returns f(x) for a scalar x, where `value` is f and `slope` is its derivative.
template <class T, class Slope>
T apply(T x, double (*value)(double), Slope slope) {
  if constexpr (std::is_floating_point_v<T>)
    return T(value(double(x)));
  else
    return chain(x, value(real(x)), slope(real(x)));
}

// The ops of a smooth function F and of its derivative. The SIMD kernels for float32 are optional.
template <class F>
class SmoothOp {
 public:
  // `function` is the public function that calls this object. The samples call it.
  SmoothOp(std::string_view name, std::string_view slope_name, Tensor (*function)(const Tensor&),
           SimdMap simd = nullptr, SimdZip simd_slope = nullptr)
      : value_({.name = name, .saves = Saves::kInputs, .samples = activation_samples(function)}),
        slope_({.name = slope_name,
                .saves = Saves::kInputs,
                .samples = [this](SampleGen& g) { return slope_samples(g); }}),
        simd_(simd),
        simd_slope_(simd_slope) {}

  // Returns F(x).
  Tensor operator()(const Tensor& x) const {
    const auto f = [](auto v) { return apply(v, F::value, F::slope); };
    return record(value_, {x}, elementwise(value_, x, f, simd_),
                  [this](const Vjp& v) -> Grads { return {times_slope(v.grad, v.input(0))}; });
  }

 private:
  // Returns g F'(x).
  Tensor times_slope(const Tensor& g, const Tensor& x) const {
    const auto f = [](auto a, auto b) {
      return decltype(a)(a * apply(b, F::slope, [](double u) { return F::curvature(u); }));
    };
    return record(slope_, {g, x}, elementwise(slope_, g, x, f, simd_slope_),
                  [this](const Vjp& v) -> Grads {
                    const Tensor& u = v.input(1);
                    return {v.needs(0) ? times_slope(v.grad, u) : Tensor(),
                            v.needs(1) ? v.grad * v.input(0) * F::curvature(u) : Tensor()};
                  });
  }
  Samples slope_samples(SampleGen& g) const;

  Op value_, slope_;
  SimdMap simd_;
  SimdZip simd_slope_;
};

namespace simd = kernels::simd;
const SmoothOp<Tanh> kTanh("tanh", "tanh_slope", tanh, simd::tanh, simd::tanh_backward);
const SmoothOp<Sigmoid> kSigmoid("sigmoid", "sigmoid_slope", sigmoid);
const SmoothOp<Gelu> kGelu("gelu", "gelu_slope", gelu, simd::gelu, simd::gelu_backward);
const SmoothOp<GeluTanh> kGeluTanh("gelu_tanh", "gelu_tanh_slope", gelu_tanh, simd::gelu_tanh,
                                   simd::gelu_tanh_backward);
const SmoothOp<Silu> kSilu("silu", "silu_slope", silu, simd::silu, simd::silu_backward);

}  // namespace

Tensor relu(const Tensor& x) {
  const auto f = [](auto v) { return v < decltype(v)(0) ? decltype(v)(0) : v; };  // NaN for NaN
  return record(kRelu, {x}, elementwise(kRelu, x, f), [](const Vjp& v) -> Grads {
    return {masked_fill(v.grad, le(v.input(0), 0.0), 0)};
  });
}

Tensor tanh(const Tensor& x) { return kTanh(x); }
Tensor sigmoid(const Tensor& x) { return kSigmoid(x); }
Tensor gelu(const Tensor& x) { return kGelu(x); }
Tensor gelu_tanh(const Tensor& x) { return kGeluTanh(x); }
Tensor silu(const Tensor& x) { return kSilu(x); }

namespace {

SampleFn activation_samples(Tensor (*f)(const Tensor&)) {
  return [f](SampleGen& g) -> Samples {
    const auto one = [f](Args t) { return f(t[0]); };
    return {{"matrix", one, {g.apart({3, 4})}},
            {"rank 0", one, {g.normal({})}},
            {"size 0", one, {g.normal({0, 2})}}};
  };
}

template <class F>
Samples SmoothOp<F>::slope_samples(SampleGen& g) const {
  const auto f = [this](Args t) { return times_slope(t[0], t[1]); };
  return {{"matrix", f, {g.normal({3, 4}), g.normal({3, 4})}},
          {"rank 0", f, {g.normal({}), g.normal({})}},
          {"size 0", f, {g.normal({0, 2}), g.normal({0, 2})}}};
}

}  // namespace

}  // namespace heed::autograd
