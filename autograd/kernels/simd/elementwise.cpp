// Elementwise functions of adjacent float32 values, and dropout masks, compiled once per SIMD
// target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/simd/elementwise.cpp"
// foreach_target.h requires this order of includes.
// clang-format off
#include "autograd/kernels/simd/targets.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
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

void add_loop(float* y, const float* a, const float* b, std::int64_t n) { add_vectors(y, a, b, n); }
void exp_loop(float* y, const float* x, std::int64_t n) {
  for_each_vector(
      n, [&](auto, auto load, auto store) HWY_ATTR { store(vector_exp(D(), load(x)), y); });
}
void tanh_loop(float* y, const float* x, std::int64_t n) {
  for_each_vector(n,
                  [&](auto, auto load, auto store) HWY_ATTR { store(hn::Tanh(D(), load(x)), y); });
}
void erf_loop(float* y, const float* x, std::int64_t n) {
  for_each_vector(
      n, [&](auto, auto load, auto store) HWY_ATTR { store(vector_erf(D(), load(x)), y); });
}
void gelu_loop(float* y, const float* x, std::int64_t n) {
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V v = load(x);
    store(hn::Mul(v, vector_normal(D(), v).Phi), y);
  });
}
void gelu_backward_loop(float* dx, const float* g, const float* x, std::int64_t n) {
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V v = load(x);
    const auto normal = vector_normal(D(), v);
    store(hn::Mul(load(g), hn::MulAdd(v, normal.phi, normal.Phi)), dx);
  });
}
// Returns the derivative of x s(u(x)), where s is the logistic function and du = du/dx:
// s(u) + x s(u) (1 - s(u)) du. If s(u) (1 - s(u)) is 0, the second term is 0 even if x du is
// infinite.
HWY_INLINE V logistic_slope(V x, V u, V du) {
  const D d;
  const auto l = vector_logistic(d, u);
  const V bell = hn::Mul(l.s, l.rest);
  const V rise = hn::IfThenZeroElse(hn::Eq(bell, hn::Zero(d)), hn::Mul(hn::Mul(x, bell), du));
  return hn::Add(l.s, rise);
}
void silu_loop(float* y, const float* x, std::int64_t n) {
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V v = load(x);
    store(hn::Mul(v, vector_logistic(D(), v).s), y);
  });
}
void silu_backward_loop(float* dx, const float* g, const float* x, std::int64_t n) {
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V v = load(x);
    store(hn::Mul(load(g), logistic_slope(v, v, hn::Set(D(), 1.0f))), dx);
  });
}

// gelu_tanh(x) = 0.5 x (1 + tanh(c (x + k x^3))) = x s(u) with u = 2 c (x + k x^3), where s is the
// logistic function, c = sqrt(2 / pi) and k = 0.044715.
constexpr float kTwiceC = 1.5957691216057308f, kCubic = 0.044715f;
HWY_INLINE V gelu_tanh_u(V x, V square) {
  const D d;
  return hn::Mul(hn::Mul(hn::Set(d, kTwiceC), x),
                 hn::MulAdd(hn::Set(d, kCubic), square, hn::Set(d, 1.0f)));
}
void gelu_tanh_loop(float* y, const float* x, std::int64_t n) {
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V v = load(x);
    store(hn::Mul(v, vector_logistic(D(), gelu_tanh_u(v, hn::Mul(v, v))).s), y);
  });
}
void gelu_tanh_backward_loop(float* dx, const float* g, const float* x, std::int64_t n) {
  const D d;
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V v = load(x), square = hn::Mul(v, v);
    const V du = hn::MulAdd(hn::Set(d, 3 * kCubic * kTwiceC), square, hn::Set(d, kTwiceC));
    store(hn::Mul(load(g), logistic_slope(v, gelu_tanh_u(v, square), du)), dx);
  });
}

void adamw_loop(float* p, const float* g, float* m, float* v, std::int64_t n, const AdamWStep& s) {
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
    std::copy_n(keep_run(mask, first + at, std::int64_t(n), memory), n, out.data() + at);
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
HWY_EXPORT(erf_loop);
HWY_EXPORT(gelu_loop);
HWY_EXPORT(gelu_backward_loop);
HWY_EXPORT(gelu_tanh_loop);
HWY_EXPORT(gelu_tanh_backward_loop);
HWY_EXPORT(silu_loop);
HWY_EXPORT(silu_backward_loop);
HWY_EXPORT(adamw_loop);
HWY_EXPORT(keep_span);

}  // namespace

void add(float* y, const float* a, const float* b, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(add_loop)(y, a, b, n);
}
void exp(float* y, const float* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(exp_loop)(y, x, n); }
void tanh(float* y, const float* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(tanh_loop)(y, x, n); }
void erf(float* y, const float* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(erf_loop)(y, x, n); }
void gelu(float* y, const float* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(gelu_loop)(y, x, n); }
void gelu_backward(float* dx, const float* g, const float* x, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(gelu_backward_loop)(dx, g, x, n);
}
void gelu_tanh(float* y, const float* x, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_loop)(y, x, n);
}
void gelu_tanh_backward(float* dx, const float* g, const float* x, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(gelu_tanh_backward_loop)(dx, g, x, n);
}
void silu(float* y, const float* x, std::int64_t n) { HWY_DYNAMIC_DISPATCH(silu_loop)(y, x, n); }
void silu_backward(float* dx, const float* g, const float* x, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(silu_backward_loop)(dx, g, x, n);
}
void adamw(float* p, const float* g, float* m, float* v, std::int64_t n, const AdamWStep& step) {
  HWY_DYNAMIC_DISPATCH(adamw_loop)(p, g, m, v, n, step);
}
void keep(const DropoutMask& mask, std::uint64_t first, std::span<std::uint8_t> out) {
  HWY_DYNAMIC_DISPATCH(keep_span)(mask, first, out);
}
}  // namespace heed::autograd::kernels::simd
#endif
