// Elementwise functions of adjacent float32 values, and dropout masks, compiled once per SIMD
// target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/simd/elementwise.cpp"
// foreach_target.h requires this order of includes.
// clang-format off
#include "autograd/kernels/simd/targets.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "autograd/kernels/reference/smooth.h"
#include "autograd/kernels/simd/elementwise.h"
#include "autograd/kernels/simd/philox-inl.h"
#include "autograd/kernels/simd/vector_math-inl.h"
#include "autograd/kernels/simd/vectors-inl.h"
#include <algorithm>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

void add_loop(float* y, const float* a, const float* b, Index n) { add_vectors(y, a, b, n); }
void exp_loop(float* y, const float* x, Index n) {
  for_each_vector(
      n, [&](auto, auto load, auto store) HWY_ATTR { store(vector_exp(D(), load(x)), y); });
}
void tanh_loop(float* y, const float* x, Index n) {
  for_each_vector(n,
                  [&](auto, auto load, auto store) HWY_ATTR { store(hn::Tanh(D(), load(x)), y); });
}
void tanh_backward_loop(float* dx, const float* g, const float* x, Index n) {
#if HWY_TARGET == HWY_SCALAR
  for (Index i = 0; i < n; ++i) dx[i] = g[i] * float(reference::Tanh::slope(double(x[i])));
#else
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V slope = in_float64(D(), hn::Abs(load(x)), [](auto wide, auto t) HWY_ATTR {
      const auto e = vector_exp(wide, hn::Mul(hn::Set(wide, -2.0), t));
      const auto sum = hn::Add(e, hn::Set(wide, 1.0));
      return hn::Div(hn::Mul(hn::Set(wide, 4.0), e), hn::Mul(sum, sum));
    });
    store(hn::Mul(load(g), slope), dx);
  });
#endif
}

template <class Tail>
HWY_INLINE V limited(V x) {
  const V end = hn::Set(D(), Tail::kEnd), t = hn::Abs(x);
  return hn::IfThenElse(hn::Gt(t, end), end, t);  // keeps NaN
}
// Computes y = f(x) for a function f with f(x) - f(-x) = x. With t = |x|, Tail::value() returns
// -2^64 f(-t), and Tail::slope() returns 2^64 f'(-t). On one lane, F computes f in float64.
template <class F, class Tail>
void gate_loop(float* y, const float* x, Index n) {
#if HWY_TARGET == HWY_SCALAR
  for (Index i = 0; i < n; ++i) y[i] = float(F::value(double(x[i])));
#else
  const D d;
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V v = load(x), tail = Tail::value(d, limited<Tail>(v));
    store(hn::NegMulAdd(tail, hn::Set(d, 0x1p-64f), hn::Max(v, hn::Zero(d))), y);
  });
#endif
}
template <class F, class Tail>
void gate_backward_loop(float* dx, const float* g, const float* x, Index n) {
#if HWY_TARGET == HWY_SCALAR
  for (Index i = 0; i < n; ++i) dx[i] = g[i] * float(F::slope(double(x[i])));
#else
  const D d;
  const V scale = hn::Set(d, 0x1p-64f);
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V v = load(x), s = Tail::slope(d, limited<Tail>(v));
    const V right = hn::NegMulAdd(s, scale, hn::Set(d, 1.0f));
    const V slope = hn::IfThenElse(hn::Gt(v, hn::Zero(d)), right, hn::Mul(s, scale));
    store(hn::Mul(load(g), slope), dx);
  });
#endif
}
void gelu_loop(float* y, const float* x, Index n) { gate_loop<reference::Gelu, GeluTail>(y, x, n); }
void gelu_backward_loop(float* dx, const float* g, const float* x, Index n) {
  gate_backward_loop<reference::Gelu, GeluTail>(dx, g, x, n);
}
void gelu_tanh_loop(float* y, const float* x, Index n) {
  gate_loop<reference::GeluTanh, LogisticTail<reference::GeluTanhU>>(y, x, n);
}
void gelu_tanh_backward_loop(float* dx, const float* g, const float* x, Index n) {
  gate_backward_loop<reference::GeluTanh, LogisticTail<reference::GeluTanhU>>(dx, g, x, n);
}
void silu_loop(float* y, const float* x, Index n) {
  gate_loop<reference::Silu, LogisticTail<reference::SiluU>>(y, x, n);
}
void silu_backward_loop(float* dx, const float* g, const float* x, Index n) {
  gate_backward_loop<reference::Silu, LogisticTail<reference::SiluU>>(dx, g, x, n);
}

void adamw_loop(float* p, const float* g, float* m, float* v, Index n, const AdamWStep& s) {
  const D d;
  const auto c = [d](double value) HWY_ATTR { return hn::Set(d, float(value)); };
  const V b1 = c(s.beta1), b2 = c(s.beta2), c1 = c(1 - s.beta1), c2 = c(1 - s.beta2);
  const V scale = c(s.grad_scale), keep = c(s.keep), rate = c(s.step_size), eps = c(s.eps);
  const V inverse_root = c(1 / s.root);
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V gi = hn::Mul(load(g), scale);
    const V mi = hn::MulAdd(b1, load(m), hn::Mul(c1, gi));
    const V vi = hn::MulAdd(b2, load(v), hn::Mul(hn::Mul(c2, gi), gi));
    const V size = hn::Div(hn::Mul(rate, mi), hn::MulAdd(hn::Sqrt(vi), inverse_root, eps));
    store(mi, m), store(vi, v);
    store(hn::MulSub(load(p), keep, size), p);
  });
}

void keep_span(const DropoutMask& mask, std::uint64_t first, std::span<std::uint8_t> out) {
  constexpr std::size_t kRun = 256;
  std::uint8_t memory[kRun + kKeepSlack];
  for (std::size_t at = 0; at < out.size(); at += kRun) {
    const std::size_t n = std::min(kRun, out.size() - at);
    std::copy_n(keep_run(mask, first + at, Index(n), memory), n, out.data() + at);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::autograd::kernels::simd {
namespace {

HWY_EXPORT(add_loop);
HWY_EXPORT(exp_loop);
HWY_EXPORT(tanh_loop);
HWY_EXPORT(tanh_backward_loop);
HWY_EXPORT(gelu_loop);
HWY_EXPORT(gelu_backward_loop);
HWY_EXPORT(gelu_tanh_loop);
HWY_EXPORT(gelu_tanh_backward_loop);
HWY_EXPORT(silu_loop);
HWY_EXPORT(silu_backward_loop);
HWY_EXPORT(adamw_loop);
HWY_EXPORT(keep_span);

}  // namespace

void add(float* y, const float* a, const float* b, Index n) {
  HWY_DYNAMIC_DISPATCH(add_loop)(y, a, b, n);
}
void exp(float* y, const float* x, Index n) { HWY_DYNAMIC_DISPATCH(exp_loop)(y, x, n); }
void tanh(float* y, const float* x, Index n) { HWY_DYNAMIC_DISPATCH(tanh_loop)(y, x, n); }
void tanh_backward(float* dx, const float* g, const float* x, Index n) {
  HWY_DYNAMIC_DISPATCH(tanh_backward_loop)(dx, g, x, n);
}
void gelu(float* y, const float* x, Index n) { HWY_DYNAMIC_DISPATCH(gelu_loop)(y, x, n); }
void gelu_backward(float* dx, const float* g, const float* x, Index n) {
  HWY_DYNAMIC_DISPATCH(gelu_backward_loop)(dx, g, x, n);
}
void gelu_tanh(float* y, const float* x, Index n) { HWY_DYNAMIC_DISPATCH(gelu_tanh_loop)(y, x, n); }
void gelu_tanh_backward(float* dx, const float* g, const float* x, Index n) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_backward_loop)(dx, g, x, n);
}
void silu(float* y, const float* x, Index n) { HWY_DYNAMIC_DISPATCH(silu_loop)(y, x, n); }
void silu_backward(float* dx, const float* g, const float* x, Index n) {
  HWY_DYNAMIC_DISPATCH(silu_backward_loop)(dx, g, x, n);
}
void adamw(float* p, const float* g, float* m, float* v, Index n, const AdamWStep& step) {
  HWY_DYNAMIC_DISPATCH(adamw_loop)(p, g, m, v, n, step);
}
void keep(const DropoutMask& mask, std::uint64_t first, std::span<std::uint8_t> out) {
  HWY_DYNAMIC_DISPATCH(keep_span)(mask, first, out);
}
}  // namespace heed::autograd::kernels::simd
#endif
