// Which version of a kernel runs: simd:: for the scalars that have one, unless "scalar" is forced;
// reference:: for the others.
// Kernels with one version only are called by its name.
#pragma once

#include <type_traits>

#include "autograd/kernels/reference/adamw.h"
#include "autograd/kernels/reference/cross_entropy.h"
#include "autograd/kernels/reference/gemm.h"
#include "autograd/kernels/reference/norm.h"
#include "autograd/kernels/reference/reduce.h"
#include "autograd/kernels/reference/softmax.h"
#include "autograd/kernels/simd/elementwise.h"
#include "autograd/kernels/simd/gemm.h"
#include "autograd/kernels/simd/rows.h"
#include "autograd/kernels/simd/simd.h"

namespace heed::autograd::kernels {

/// float32 and float64 products are SIMD.
template <class T>
void gemm(const Gemm<T>& g) {
  if constexpr (std::is_floating_point_v<T>)
    if (simd_runs()) return simd::gemm(g);
  reference::gemm(g);
}

/// Rows of float32 are SIMD.
template <class T>
inline constexpr bool kSimdRows = std::is_same_v<T, float>;

/// sum += x, n adjacent values.
template <class T>
void add_into(T* sum, const T* x, std::int64_t n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::add(sum, sum, x, n);
  for (std::int64_t i = 0; i < n; ++i) sum[i] += x[i];
}

/// y = softmax(x), n values; y may be x. Strided rows run on the reference.
template <class T>
void softmax_row(T* y, std::int64_t y_stride, const T* x, std::int64_t x_stride, std::int64_t n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs() && y_stride == 1 && x_stride == 1) return simd::softmax_row(y, x, n);
  reference::softmax_row(y, y_stride, x, x_stride, n);
}

/// Rows of layer_norm (centered) or rms_norm, adjacent; moments is [rows, 2], mean and rstd of
/// each.
template <class T>
void norm_moments(Accumulator<T>* moments, const T* x, std::int64_t rows, std::int64_t n,
                  double eps, bool centered) {
  if constexpr (kSimdRows<T>)
    if (simd_runs() && centered) return simd::layer_norm_moments(moments, x, rows, n, eps);
  for (std::int64_t r = 0; r < rows; ++r, x += n) {
    const Moments<T> m = centered ? reference::layer_norm_moments(x, n, eps)
                                  : reference::rms_norm_moments(x, n, eps);
    moments[2 * r] = m.mean, moments[2 * r + 1] = m.rstd;
  }
}

/// y [rows, n] = (x - mean) rstd weight + bias; weight and bias [n] may each be null. y may be x.
template <class T>
void normalize(T* y, const T* x, const Accumulator<T>* moments, const T* weight, const T* bias,
               std::int64_t rows, std::int64_t n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::normalize(y, x, moments, weight, bias, rows, n);
  for (std::int64_t r = 0; r < rows; ++r)
    reference::normalize(y + r * n, x + r * n, Moments<T>{moments[2 * r], moments[2 * r + 1]},
                         weight, bias, n);
}

/// As simd::normalize_backward (rows.h): to.x is written, to.weight and to.bias are added to.
template <class T>
void normalize_backward(const NormGrads<T>& to, const T* g, const T* x,
                        const Accumulator<T>* moments, const T* weight, std::int64_t rows,
                        std::int64_t n, bool centered) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::normalize_backward(to, g, x, moments, weight, rows, n, centered);
  for (std::int64_t r = 0; r < rows; ++r, g += n, x += n) {
    const Moments<T> m{moments[2 * r], moments[2 * r + 1]};
    if (to.x) reference::normalize_backward(to.x + r * n, g, x, m, weight, n, centered);
    if (to.weight) reference::add_parameter_grads(to.weight, to.bias, g, x, m, n);
  }
}

/// The loss of a row of n logits, and its log-sum-exp for the backward.
template <class T>
Accumulator<T> cross_entropy(LogSumExp<T>& lse, const T* x, std::int64_t n, std::int64_t target,
                             double smoothing) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::cross_entropy(lse, x, n, target, smoothing);
  return reference::cross_entropy(lse, x, n, target, smoothing);
}

/// dx [n] = scale times the gradient of that loss; dx may be x.
template <class T>
void cross_entropy_backward(T* dx, const T* x, std::int64_t n, std::int64_t target,
                            double smoothing, LogSumExp<T> lse, Accumulator<T> scale) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::cross_entropy_backward(dx, x, n, target, smoothing, lse, scale);
  reference::cross_entropy_backward(dx, x, n, target, smoothing, lse, scale);
}

/// out [columns] += the sums of x's columns.
template <class T>
void add_columns(Accumulator<T>* out, const T* x, std::int64_t rows, std::int64_t row_stride,
                 std::int64_t columns) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::add_columns(out, x, rows, row_stride, columns);
  reference::add_columns(out, x, rows, row_stride, columns);
}

/// Returns the sum of squares of n values, in float64.
template <class T>
double sum_of_squares(const T* x, std::int64_t n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::sum_of_squares(x, n);
  return reference::sum_of_squares(x, n);
}

/// out[k] = mask.keep(first + k) as 0 or 1, for a mask of p > 0.
inline void keep(const DropoutMask& mask, std::uint64_t first, std::span<std::uint8_t> out) {
  simd_runs() ? simd::keep(mask, first, out) : mask.keep(first, out);
}

/// An update of n parameters p and their moments m and v by gradients g, as reference/adamw.h.
template <class T>
void adamw(T* p, const T* g, T* m, T* v, std::int64_t n, const AdamWStep& step) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::adamw(p, g, m, v, n, step);
  reference::adamw(p, g, m, v, n, step);
}

}  // namespace heed::autograd::kernels
