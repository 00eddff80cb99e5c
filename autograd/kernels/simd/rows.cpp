// Kernels on rows of float32, compiled once per SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/simd/rows.cpp"
// foreach_target.h requires this order of includes.
// clang-format off
#include "autograd/kernels/simd/targets.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "autograd/kernels/simd/rows.h"
#include "autograd/kernels/simd/vector_math-inl.h"
#include "autograd/kernels/simd/vectors-inl.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

float row_max_loop(const float* x, Index n) {
  const D d;
  const V lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  V top = lowest;
  auto any_nan = hn::FirstN(d, 0);
  for_each_vector(n, [&](auto mask, auto load, auto) HWY_ATTR {
    const V v = load(x);
    any_nan = hn::Or(any_nan, hn::IsNaN(v));
    top = hn::Max(top, hn::IfThenElse(mask, v, lowest));
  });
  if (!hn::AllFalse(d, any_nan)) return std::numeric_limits<float>::quiet_NaN();
  return hn::GetLane(hn::MaxOfLanes(d, top));
}

// Returns the sum of exp(x - top) without one of the values that are equal to top, the largest.
double sum_exp_below_loop(const float* x, float top, Index n) {
  const D d;
  const V largest = hn::Set(d, top), one = hn::Set(d, 1.0f);
  const auto [below, tops] = sum_row<2>(n, [&](auto mask, auto load, auto, V* sums) HWY_ATTR {
    const V v = load(x), shifted = hn::Sub(v, largest);
    const auto at_top = hn::And(mask, hn::Eq(v, largest));
    const V e = hn::IfThenZeroElse(at_top, exp_near_zero(d, shifted));
    sums[0] = hn::Add(sums[0], hn::IfThenElseZero(mask, e));
    // If top is inf, `shifted` is NaN, and so is the result.
    sums[1] = hn::Add(sums[1], hn::IfThenElseZero(at_top, hn::Add(one, shifted)));
  });
  return below + (tops - 1);
}

void softmax_row_loop(float* y, const float* x, Index n) {
  const D d;
  const float top = row_max_loop(x, n);
  if (top == -std::numeric_limits<float>::infinity()) {  // all values are -inf
    std::fill_n(y, n, 0.0f);
    return;
  }
  const auto [total] = sum_row<1>(n, [&](auto mask, auto load, auto store, V* sum) HWY_ATTR {
    const V e = hn::IfThenElseZero(mask, exp_near_zero(d, hn::Sub(load(x), hn::Set(d, top))));
    *sum = hn::Add(*sum, e);
    store(e, y);
  });
  const V scale = hn::Set(d, float(1 / total));
  for_each_vector(n,
                  [&](auto, auto load, auto store) HWY_ATTR { store(hn::Mul(load(y), scale), y); });
}

void scaled_probabilities_loop(float* dx, const float* x, float top, float scale, float offset,
                               Index n) {
  const D d;
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V e = exp_near_zero(d, hn::Sub(load(x), hn::Set(d, top)));
    store(hn::MulSub(hn::Set(d, scale), e, hn::Set(d, offset)), dx);
  });
}

using DD = hn::ScalableTag<double>;
using Half = hn::Rebind<float, DD>;  // as many floats as DD has lanes

// Returns the sums of v and of v^2 over the n values v = x - origin, in float64.
HWY_INLINE std::array<double, 2> moments_about(double origin, const float* x, Index n) {
  const DD wide;
  const Half half;
  const Index step = Index(hn::Lanes(wide));
  const auto zero = hn::Set(wide, origin);
  auto s0 = hn::Zero(wide), s1 = s0, q0 = s0, q1 = s0;
  Index i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    const auto a = hn::Sub(hn::PromoteTo(wide, hn::LoadU(half, x + i)), zero);
    const auto b = hn::Sub(hn::PromoteTo(wide, hn::LoadU(half, x + i + step)), zero);
    s0 = hn::Add(s0, a), s1 = hn::Add(s1, b);
    q0 = hn::MulAdd(a, a, q0), q1 = hn::MulAdd(b, b, q1);
  }
  std::array<double, 2> sums = {hn::GetLane(hn::SumOfLanes(wide, hn::Add(s0, s1))),
                                hn::GetLane(hn::SumOfLanes(wide, hn::Add(q0, q1)))};
  for (; i < n; ++i) {
    const double v = double(x[i]) - origin;
    sums[0] += v, sums[1] += v * v;
  }
  return sums;
}

double sum_of_squares_loop(const float* x, Index n) { return moments_about(0, x, n)[1]; }

// The variance is computed in one pass as mean(v^2) - mean(v)^2, where v = x - x[0]. The first term
// is at most n + 1 times the variance, so float64 has enough digits if n <= kOnePass. Longer
// rows need a second pass, with the mean as the origin.
void norm_moments_loop(double* moments, const float* x, Index rows, Index n, double eps,
                       bool centered) {
  constexpr Index kOnePass = 1 << 14;
  const double part = 1 / double(n);
  for (Index r = 0; r < rows; ++r, x += n, moments += 2) {
    double origin = centered && n > 0 ? double(x[0]) : 0;
    std::array<double, 2> sums = moments_about(origin, x, n);
    if (centered && n > kOnePass) {
      origin += part * sums[0];
      sums = moments_about(origin, x, n);
    }
    const double shift = centered ? part * sums[0] : 0;
    moments[0] = origin + shift;
    moments[1] = 1 / std::sqrt(part * sums[1] - shift * shift + eps);
  }
}

// Computes x - mean. The mean is the sum of two floats, because rounding it to one float would
// change all differences if the values are close to each other.
struct Centered {
  V high, low;
  HWY_INLINE explicit Centered(double mean)
      : high(hn::Set(D(), float(mean))), low(hn::Set(D(), float(mean - double(float(mean))))) {}
  HWY_INLINE V operator()(V x) const { return hn::Sub(hn::Sub(x, high), low); }
};

void normalize_loop(float* y, const float* x, const double* moments, const float* weight,
                    const float* bias, Index rows, Index n) {
  const D d;
  for (Index r = 0; r < rows; ++r, x += n, y += n, moments += 2) {
    const Centered centered(moments[0]);
    const V rstd = hn::Set(d, float(moments[1]));
    for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
      V v = hn::Mul(centered(load(x)), rstd);
      if (weight) v = hn::Mul(v, load(weight));
      if (bias) v = hn::Add(v, load(bias));
      store(v, y);
    });
  }
}

// Reads each row twice: first to compute two means and the gradients of the parameters, then to
// compute dx.
void normalize_backward_loop(const NormGrads<float>& to, const float* g, const float* x,
                             const double* moments, const float* weight, Index rows, Index n,
                             bool centered) {
  const D d;
  const double part = 1 / double(n);
  for (Index r = 0; r < rows; ++r, x += n, g += n, moments += 2) {
    const Centered minus_mean(moments[0]);
    const V rstd = hn::Set(d, float(moments[1]));
    const auto u_of = [&](auto load) HWY_ATTR { return hn::Mul(minus_mean(load(x)), rstd); };
    const auto h_of = [&](auto load)
                          HWY_ATTR { return weight ? hn::Mul(load(g), load(weight)) : load(g); };
    const auto [sum_h, sum_hu] = sum_row<2>(n, [&](auto, auto load, auto store, V* sums) HWY_ATTR {
      const V h = h_of(load), u = u_of(load);  // lanes after the end of the row have h = 0
      sums[0] = hn::Add(sums[0], h);
      sums[1] = hn::MulAdd(h, u, sums[1]);
      if (to.weight) {
        store(hn::MulAdd(load(g), u, load(to.weight)), to.weight);
        store(hn::Add(load(to.bias), load(g)), to.bias);
      }
    });
    if (!to.x) continue;
    float* dx = to.x + r * n;
    const V mean_h = hn::Set(d, centered ? float(part * sum_h) : 0.0f);
    const V mean_hu = hn::Set(d, float(part * sum_hu));
    for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
      const V h = hn::Sub(h_of(load), mean_h);
      store(hn::Mul(rstd, hn::NegMulAdd(u_of(load), mean_hu, h)), dx);
    });
  }
}

void add_columns_loop(double* out, const float* x, Index rows, Index row_stride, Index columns,
                      const Index* order) {
  const DD wide;
  const Half half;
  const Index step = Index(hn::Lanes(wide));
  Index c = 0;
  for (; c + 4 * step <= columns; c += 4 * step) {
    auto s0 = hn::LoadU(wide, out + c), s1 = hn::LoadU(wide, out + c + step),
         s2 = hn::LoadU(wide, out + c + 2 * step), s3 = hn::LoadU(wide, out + c + 3 * step);
    for (Index r = 0; r < rows; ++r) {
      const float* from = x + (order ? order[r] : r) * row_stride + c;
      s0 = hn::Add(s0, hn::PromoteTo(wide, hn::LoadU(half, from)));
      s1 = hn::Add(s1, hn::PromoteTo(wide, hn::LoadU(half, from + step)));
      s2 = hn::Add(s2, hn::PromoteTo(wide, hn::LoadU(half, from + 2 * step)));
      s3 = hn::Add(s3, hn::PromoteTo(wide, hn::LoadU(half, from + 3 * step)));
    }
    hn::StoreU(s0, wide, out + c), hn::StoreU(s1, wide, out + c + step);
    hn::StoreU(s2, wide, out + c + 2 * step), hn::StoreU(s3, wide, out + c + 3 * step);
  }
  for (; c < columns; ++c)
    for (Index r = 0; r < rows; ++r) out[c] += double(x[(order ? order[r] : r) * row_stride + c]);
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::autograd::kernels::simd {
namespace {

HWY_EXPORT(row_max_loop);
HWY_EXPORT(sum_exp_below_loop);
HWY_EXPORT(softmax_row_loop);
HWY_EXPORT(scaled_probabilities_loop);
HWY_EXPORT(norm_moments_loop);
HWY_EXPORT(normalize_loop);
HWY_EXPORT(normalize_backward_loop);
HWY_EXPORT(add_columns_loop);
HWY_EXPORT(sum_of_squares_loop);

}  // namespace

void softmax_row(float* y, const float* x, Index n) {
  HWY_DYNAMIC_DISPATCH(softmax_row_loop)(y, x, n);
}
double cross_entropy(LogSumExp<float>& lse, const float* x, Index n, Index target,
                     double smoothing) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const float top = HWY_DYNAMIC_DISPATCH(row_max_loop)(x, n);
  lse = {double(top), 0};
  if (double(top) == -kInfinity) return kInfinity;
  const double rest = HWY_DYNAMIC_DISPATCH(sum_exp_below_loop)(x, top, n);
  lse.log_total = rest < 1 ? std::log1p(rest) : std::log(1 + rest);  // log is faster
  double loss = 0;
  if (smoothing < 1) loss += (1 - smoothing) * (lse.log_total + (lse.top - double(x[target])));
  if (smoothing > 0) {
    double below_top = 0;
    for (Index i = 0; i < n; ++i) below_top += lse.top - double(x[i]);
    loss += smoothing * (lse.log_total + below_top / double(n));
  }
  return loss;
}
void cross_entropy_backward(float* dx, const float* x, Index n, Index target, double smoothing,
                            LogSumExp<float> lse, double scale) {
  if (lse.top == -std::numeric_limits<double>::infinity()) {
    std::fill_n(dx, n, 0.0f);
    return;
  }
  const auto offset = float(scale * smoothing / double(n)),
             at_target = float(scale * (1 - smoothing));
  HWY_DYNAMIC_DISPATCH(scaled_probabilities_loop)
  (dx, x, float(lse.top), float(scale * std::exp(-lse.log_total)), offset, n);
  dx[target] -= at_target;
}
void norm_moments(double* moments, const float* x, Index rows, Index n, double eps, bool centered) {
  HWY_DYNAMIC_DISPATCH(norm_moments_loop)(moments, x, rows, n, eps, centered);
}
void normalize(float* y, const float* x, const double* moments, const float* weight,
               const float* bias, Index rows, Index n) {
  HWY_DYNAMIC_DISPATCH(normalize_loop)(y, x, moments, weight, bias, rows, n);
}
void normalize_backward(const NormGrads<float>& to, const float* g, const float* x,
                        const double* moments, const float* weight, Index rows, Index n,
                        bool centered) {
  HWY_DYNAMIC_DISPATCH(normalize_backward_loop)(to, g, x, moments, weight, rows, n, centered);
}
void add_columns(double* out, const float* x, Index rows, Index row_stride, Index columns,
                 const Index* order) {
  HWY_DYNAMIC_DISPATCH(add_columns_loop)(out, x, rows, row_stride, columns, order);
}
double sum_of_squares(const float* x, Index n) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares_loop)(x, n);
}
}  // namespace heed::autograd::kernels::simd
#endif
