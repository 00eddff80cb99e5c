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
#include <cmath>
#include <limits>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

float row_max_loop(const float* x, std::int64_t n) {
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

float sum_exp_loop(const float* x, float top, std::int64_t n) {
  const D d;
  return sum_row<1>(n, [&](auto mask, auto load, auto, V* sum) HWY_ATTR {
    *sum = hn::Add(*sum,
                   hn::IfThenElseZero(mask, exp_near_zero(d, hn::Sub(load(x), hn::Set(d, top)))));
  })[0];
}

void softmax_row_loop(float* y, const float* x, std::int64_t n) {
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
  const V scale = hn::Set(d, 1.0f / total);
  for_each_vector(n,
                  [&](auto, auto load, auto store) HWY_ATTR { store(hn::Mul(load(y), scale), y); });
}

void scaled_probabilities_loop(float* dx, const float* x, float top, float log_total, float scale,
                               float offset, std::int64_t n) {
  const D d;
  for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
    const V log_p = hn::Sub(hn::Sub(load(x), hn::Set(d, top)), hn::Set(d, log_total));
    store(hn::MulSub(hn::Set(d, scale), exp_near_zero(d, log_p), hn::Set(d, offset)), dx);
  });
}

void layer_norm_moments_loop(double* moments, const float* x, std::int64_t rows, std::int64_t n,
                             double eps) {
  const D d;
  for (std::int64_t r = 0; r < rows; ++r, x += n, moments += 2) {
    const auto mean_from = [&](float origin) HWY_ATTR {
      const auto [total] = sum_row<1>(n, [&](auto mask, auto load, auto, V* sum) HWY_ATTR {
        *sum = hn::Add(*sum, hn::IfThenElseZero(mask, hn::Sub(load(x), hn::Set(d, origin))));
      });
      return total / float(n);
    };
    float mean = mean_from(0);
    if (in_blocks(n)) mean += mean_from(mean);  // exact if all values are equal
    const auto [squares] = sum_row<1>(n, [&](auto mask, auto load, auto, V* sum) HWY_ATTR {
      const V centered = hn::IfThenElseZero(mask, hn::Sub(load(x), hn::Set(d, mean)));
      *sum = hn::MulAdd(centered, centered, *sum);
    });
    const float variance = squares / float(n);
    moments[0] = double(mean);
    moments[1] = 1 / std::sqrt(double(variance) + eps);
  }
}

void normalize_loop(float* y, const float* x, const double* moments, const float* weight,
                    const float* bias, std::int64_t rows, std::int64_t n) {
  const D d;
  for (std::int64_t r = 0; r < rows; ++r, x += n, y += n, moments += 2) {
    const V mean = hn::Set(d, float(moments[0])), rstd = hn::Set(d, float(moments[1]));
    for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
      V v = hn::Mul(hn::Sub(load(x), mean), rstd);
      if (weight) v = hn::Mul(v, load(weight));
      if (bias) v = hn::Add(v, load(bias));
      store(v, y);
    });
  }
}

// Reads each row twice: first to compute two means and the gradients of the parameters, then to
// compute dx.
void normalize_backward_loop(const NormGrads<float>& to, const float* g, const float* x,
                             const double* moments, const float* weight, std::int64_t rows,
                             std::int64_t n, bool centered) {
  const D d;
  for (std::int64_t r = 0; r < rows; ++r, x += n, g += n, moments += 2) {
    const V mean = hn::Set(d, float(moments[0])), rstd = hn::Set(d, float(moments[1]));
    const auto u_of = [&](auto load) HWY_ATTR { return hn::Mul(hn::Sub(load(x), mean), rstd); };
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
    const V mean_h = hn::Set(d, centered ? sum_h / float(n) : 0.0f);
    const V mean_hu = hn::Set(d, sum_hu / float(n));
    for_each_vector(n, [&](auto, auto load, auto store) HWY_ATTR {
      const V h = hn::Sub(h_of(load), mean_h);
      store(hn::Mul(rstd, hn::NegMulAdd(u_of(load), mean_hu, h)), dx);
    });
  }
}

#if HWY_TARGET == HWY_SCALAR
void add_columns_loop(double* out, const float* x, std::int64_t rows, std::int64_t row_stride,
                      std::int64_t columns) {
  reference::add_columns<float>(out, x, rows, row_stride, columns);
}
double sum_of_squares_loop(const float* x, std::int64_t n) {
  return reference::sum_of_squares<float>(x, n);
}
#else
using DD = hn::RepartitionToWide<D>;  // vectors of double, with half as many lanes
using Half = hn::Rebind<float, DD>;

void add_columns_loop(double* out, const float* x, std::int64_t rows, std::int64_t row_stride,
                      std::int64_t columns) {
  const DD wide;
  const Half half;
  const std::int64_t step = std::int64_t(hn::Lanes(wide));
  std::int64_t c = 0;
  for (; c + 4 * step <= columns; c += 4 * step) {
    auto s0 = hn::LoadU(wide, out + c), s1 = hn::LoadU(wide, out + c + step),
         s2 = hn::LoadU(wide, out + c + 2 * step), s3 = hn::LoadU(wide, out + c + 3 * step);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float* from = x + r * row_stride + c;
      s0 = hn::Add(s0, hn::PromoteTo(wide, hn::LoadU(half, from)));
      s1 = hn::Add(s1, hn::PromoteTo(wide, hn::LoadU(half, from + step)));
      s2 = hn::Add(s2, hn::PromoteTo(wide, hn::LoadU(half, from + 2 * step)));
      s3 = hn::Add(s3, hn::PromoteTo(wide, hn::LoadU(half, from + 3 * step)));
    }
    hn::StoreU(s0, wide, out + c), hn::StoreU(s1, wide, out + c + step);
    hn::StoreU(s2, wide, out + c + 2 * step), hn::StoreU(s3, wide, out + c + 3 * step);
  }
  for (; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r) out[c] += double(x[r * row_stride + c]);
}

double sum_of_squares_loop(const float* x, std::int64_t n) {
  const DD wide;
  const Half half;
  const std::int64_t step = std::int64_t(hn::Lanes(wide));
  auto s0 = hn::Zero(wide), s1 = hn::Zero(wide);
  std::int64_t i = 0;
  for (; i + 2 * step <= n; i += 2 * step) {
    const auto a = hn::PromoteTo(wide, hn::LoadU(half, x + i));
    const auto b = hn::PromoteTo(wide, hn::LoadU(half, x + i + step));
    s0 = hn::MulAdd(a, a, s0);
    s1 = hn::MulAdd(b, b, s1);
  }
  double total = hn::GetLane(hn::SumOfLanes(wide, hn::Add(s0, s1)));
  for (; i < n; ++i) total += double(x[i]) * double(x[i]);
  return total;
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::autograd::kernels::simd {
namespace {

HWY_EXPORT(row_max_loop);
HWY_EXPORT(sum_exp_loop);
HWY_EXPORT(softmax_row_loop);
HWY_EXPORT(scaled_probabilities_loop);
HWY_EXPORT(layer_norm_moments_loop);
HWY_EXPORT(normalize_loop);
HWY_EXPORT(normalize_backward_loop);
HWY_EXPORT(add_columns_loop);
HWY_EXPORT(sum_of_squares_loop);

}  // namespace

void softmax_row(float* y, const float* x, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(softmax_row_loop)(y, x, n);
}
double cross_entropy(LogSumExp<float>& lse, const float* x, std::int64_t n, std::int64_t target,
                     double smoothing) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const float top = HWY_DYNAMIC_DISPATCH(row_max_loop)(x, n);
  lse = {double(top), 0};
  if (double(top) == -kInfinity) return kInfinity;
  lse.log_total = std::log(double(HWY_DYNAMIC_DISPATCH(sum_exp_loop)(x, top, n)));
  double loss = 0;
  if (smoothing < 1) loss += (1 - smoothing) * (lse.log_total + (lse.top - double(x[target])));
  if (smoothing > 0) {
    double below_top = 0;
    for (std::int64_t i = 0; i < n; ++i) below_top += lse.top - double(x[i]);
    loss += smoothing * (lse.log_total + below_top / double(n));
  }
  return loss;
}
void cross_entropy_backward(float* dx, const float* x, std::int64_t n, std::int64_t target,
                            double smoothing, LogSumExp<float> lse, double scale) {
  if (lse.top == -std::numeric_limits<double>::infinity()) {
    std::fill_n(dx, n, 0.0f);
    return;
  }
  const auto offset = float(scale * smoothing / double(n)),
             at_target = float(scale * (1 - smoothing));
  if (n > kShortRow) {  // log_total is large, and rounding it would change all probabilities
    scale *= std::exp(-lse.log_total);
    lse.log_total = 0;
  }
  HWY_DYNAMIC_DISPATCH(scaled_probabilities_loop)
  (dx, x, float(lse.top), float(lse.log_total), float(scale), offset, n);
  dx[target] -= at_target;
}
void layer_norm_moments(double* moments, const float* x, std::int64_t rows, std::int64_t n,
                        double eps) {
  HWY_DYNAMIC_DISPATCH(layer_norm_moments_loop)(moments, x, rows, n, eps);
}
void normalize(float* y, const float* x, const double* moments, const float* weight,
               const float* bias, std::int64_t rows, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(normalize_loop)(y, x, moments, weight, bias, rows, n);
}
void normalize_backward(const NormGrads<float>& to, const float* g, const float* x,
                        const double* moments, const float* weight, std::int64_t rows,
                        std::int64_t n, bool centered) {
  HWY_DYNAMIC_DISPATCH(normalize_backward_loop)(to, g, x, moments, weight, rows, n, centered);
}
void add_columns(double* out, const float* x, std::int64_t rows, std::int64_t row_stride,
                 std::int64_t columns) {
  HWY_DYNAMIC_DISPATCH(add_columns_loop)(out, x, rows, row_stride, columns);
}
double sum_of_squares(const float* x, std::int64_t n) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares_loop)(x, n);
}
}  // namespace heed::autograd::kernels::simd
#endif
