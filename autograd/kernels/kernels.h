// Which version of a kernel runs: simd:: for the scalars that have one, unless "scalar" is forced;
// reference:: for the others.
// Kernels with one version only are called by its name.
#pragma once

#include <type_traits>

#include "autograd/base/dual.h"
#include "autograd/kernels/reference/adamw.h"
#include "autograd/kernels/reference/cross_entropy.h"
#include "autograd/kernels/reference/gemm.h"
#include "autograd/kernels/reference/norm.h"
#include "autograd/kernels/reference/reduce.h"
#include "autograd/kernels/reference/softmax.h"
#include "autograd/kernels/simd/gemm.h"
#include "autograd/kernels/simd/rows.h"
#include "autograd/kernels/simd/simd.h"

namespace heed::autograd::kernels {

/// float32 and float64 products are SIMD.
template <class T>
void gemm(const Gemm<T>& g) {
  if constexpr (!std::is_same_v<T, Dual>)
    if (simd_runs()) return simd::gemm(g);
  reference::gemm(g);
}

/// Rows of float32 are SIMD.
template <class T>
inline constexpr bool kSimdRows = std::is_same_v<T, float>;

/// Strided rows run on the reference.
template <class T>
void softmax_row(T* y, std::int64_t y_stride, const T* x, std::int64_t x_stride, std::int64_t n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs() && y_stride == 1 && x_stride == 1) return simd::softmax_row(y, x, n);
  reference::softmax_row(y, y_stride, x, x_stride, n);
}

template <class T>
Moments<T> layer_norm_moments(const T* x, std::int64_t n, double eps) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::layer_norm_moments(x, n, eps);
  return reference::layer_norm_moments(x, n, eps);
}

template <class T>
void normalize(T* y, const T* x, Moments<T> m, const T* weight, const T* bias, std::int64_t n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::normalize(y, x, m, weight, bias, n);
  reference::normalize(y, x, m, weight, bias, n);
}

template <class T>
void normalize_backward(T* dx, const T* g, const T* x, Moments<T> m, const T* weight,
                        std::int64_t n, bool centered) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::normalize_backward(dx, g, x, m, weight, n, centered);
  reference::normalize_backward(dx, g, x, m, weight, n, centered);
}

template <class T>
void add_parameter_grads(T* dweight, T* dbias, const T* g, const T* x, Moments<T> m,
                         std::int64_t n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::add_parameter_grads(dweight, dbias, g, x, m, n);
  reference::add_parameter_grads(dweight, dbias, g, x, m, n);
}

template <class T>
Accumulator<T> cross_entropy(LogSumExp<T>& lse, const T* x, std::int64_t n, std::int64_t target,
                             double smoothing) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::cross_entropy(lse, x, n, target, smoothing);
  return reference::cross_entropy(lse, x, n, target, smoothing);
}

template <class T>
void cross_entropy_backward(T* dx, const T* x, std::int64_t n, std::int64_t target,
                            double smoothing, LogSumExp<T> lse, Accumulator<T> scale) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::cross_entropy_backward(dx, x, n, target, smoothing, lse, scale);
  reference::cross_entropy_backward(dx, x, n, target, smoothing, lse, scale);
}

template <class T>
void add_columns(Accumulator<T>* out, const T* x, std::int64_t rows, std::int64_t row_stride,
                 std::int64_t columns) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::add_columns(out, x, rows, row_stride, columns);
  reference::add_columns(out, x, rows, row_stride, columns);
}

template <class T>
double sum_of_squares(const T* x, std::int64_t n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::sum_of_squares(x, n);
  return reference::sum_of_squares(x, n);
}

template <class T>
void adamw(T* p, const T* g, T* m, T* v, std::int64_t n, const AdamWStep& step) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::adamw(p, g, m, v, n, step);
  reference::adamw(p, g, m, v, n, step);
}

}  // namespace heed::autograd::kernels
