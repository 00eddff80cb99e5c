// Chooses between the two versions of a kernel. The functions below call the version in namespace
// simd if it exists for the scalar type, and otherwise the version in namespace reference. If the
// SIMD target "scalar" is forced (simd/simd.h), every function calls the version in namespace
// reference.
//
// Kernels that have only one version are called by their full name and are not listed here. The
// elements of an array are adjacent in memory unless a stride is given. Different arrays must not
// overlap unless a comment states that they may be the same.
#pragma once

#include <type_traits>

#include "autograd/base/index.h"
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

/// Computes the matrix products that `g` describes (reference/gemm.h). The SIMD version exists for
/// float and double.
template <class T>
void gemm(const Gemm<T>& g) {
  if constexpr (std::is_floating_point_v<T>)
    if (simd_runs()) return simd::gemm(g);
  reference::gemm(g);
}

/// True if the functions below have a SIMD version for T, which is so only for float.
template <class T>
inline constexpr bool kSimdRows = std::is_same_v<T, float>;

/// Computes sum[i] += x[i] for n values.
template <class T>
void add_into(T* sum, const T* x, Index n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::add(sum, sum, x, n);
  for (Index i = 0; i < n; ++i) sum[i] += x[i];
}

/// Computes y = softmax(x) of a row of n values. y and x may be the same array if their strides are
/// equal. The SIMD version is used only if both strides are 1.
template <class T>
void softmax_row(T* y, Index y_stride, const T* x, Index x_stride, Index n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs() && y_stride == 1 && x_stride == 1) return simd::softmax_row(y, x, n);
  reference::softmax_row(y, y_stride, x, x_stride, n);
}

/// Computes the statistics of each row of x [rows, n] for layer_norm if `centered` is true, and
/// otherwise for rms_norm. Row r of moments [rows, 2] receives the mean of row r and rstd = 1 /
/// sqrt(variance + eps). For rms_norm, the mean is 0 and rstd = 1 / sqrt(mean(x^2) + eps).
template <class T>
void norm_moments(Accumulator<T>* moments, const T* x, Index rows, Index n, double eps,
                  bool centered) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::norm_moments(moments, x, rows, n, eps, centered);
  for (Index r = 0; r < rows; ++r, x += n) {
    const Moments<T> m = centered ? reference::layer_norm_moments(x, n, eps)
                                  : reference::rms_norm_moments(x, n, eps);
    moments[2 * r] = m.mean, moments[2 * r + 1] = m.rstd;
  }
}

/// Computes y = (x - mean) * rstd * weight + bias for each row of x and y [rows, n], where
/// `moments` is the result of norm_moments(). weight and bias have n values. A null weight means 1
/// and a null bias means 0. y may be the same array as x.
template <class T>
void normalize(T* y, const T* x, const Accumulator<T>* moments, const T* weight, const T* bias,
               Index rows, Index n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::normalize(y, x, moments, weight, bias, rows, n);
  for (Index r = 0; r < rows; ++r)
    reference::normalize(y + r * n, x + r * n, Moments<T>{moments[2 * r], moments[2 * r + 1]},
                         weight, bias, n);
}

/// Computes the gradients of normalize() from g [rows, n], the gradient of y. The gradient of x is
/// written to to.x [rows, n]. The gradients of weight and bias are added to to.weight [n] and
/// to.bias [n]. If to.x is null, the gradient of x is not computed. If to.weight is null, the
/// gradients of weight and bias are not computed.
template <class T>
void normalize_backward(const NormGrads<T>& to, const T* g, const T* x,
                        const Accumulator<T>* moments, const T* weight, Index rows, Index n,
                        bool centered) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::normalize_backward(to, g, x, moments, weight, rows, n, centered);
  for (Index r = 0; r < rows; ++r, g += n, x += n) {
    const Moments<T> m{moments[2 * r], moments[2 * r + 1]};
    if (to.x) reference::normalize_backward(to.x + r * n, g, x, m, weight, n, centered);
    if (to.weight) reference::add_parameter_grads(to.weight, to.bias, g, x, m, n);
  }
}

/// Returns the cross-entropy loss of a row of n logits x, where `target` is the index of the
/// correct class and `smoothing` is the label smoothing in [0, 1]. Writes the log-sum-exp of the
/// row to `lse` for the backward.
template <class T>
Accumulator<T> cross_entropy(LogSumExp<T>& lse, const T* x, Index n, Index target,
                             double smoothing) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::cross_entropy(lse, x, n, target, smoothing);
  return reference::cross_entropy(lse, x, n, target, smoothing);
}

/// Computes dx [n], the gradient of cross_entropy() with respect to x, multiplied by `scale`. dx
/// may be the same array as x.
template <class T>
void cross_entropy_backward(T* dx, const T* x, Index n, Index target, double smoothing,
                            LogSumExp<T> lse, Accumulator<T> scale) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::cross_entropy_backward(dx, x, n, target, smoothing, lse, scale);
  reference::cross_entropy_backward(dx, x, n, target, smoothing, lse, scale);
}

/// Adds the sum over the rows of x [rows, columns] to out [columns]. Consecutive rows are
/// row_stride elements apart. If `order` is not null, adds the rows order[0] to order[rows - 1].
template <class T>
void add_columns(Accumulator<T>* out, const T* x, Index rows, Index row_stride, Index columns,
                 const Index* order = nullptr) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::add_columns(out, x, rows, row_stride, columns, order);
  reference::add_columns(out, x, rows, row_stride, columns, order);
}

/// Returns the sum of the squares of n values, accumulated in float64.
template <class T>
double sum_of_squares(const T* x, Index n) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::sum_of_squares(x, n);
  return reference::sum_of_squares(x, n);
}

/// Sets each out[k] to 1 if the mask keeps element first + k, and otherwise to 0. The dropout
/// probability of the mask must be greater than 0.
inline void keep(const DropoutMask& mask, std::uint64_t first, std::span<std::uint8_t> out) {
  simd_runs() ? simd::keep(mask, first, out) : mask.keep(first, out);
}

/// Updates n parameters p and their moments m and v in place from the gradients g. The formula is
/// in reference/adamw.h.
template <class T>
void adamw(T* p, const T* g, T* m, T* v, Index n, const AdamWStep& step) {
  if constexpr (kSimdRows<T>)
    if (simd_runs()) return simd::adamw(p, g, m, v, n, step);
  reference::adamw(p, g, m, v, n, step);
}

}  // namespace heed::autograd::kernels
