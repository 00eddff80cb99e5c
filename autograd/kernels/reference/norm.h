// Reference version of layer_norm and rms_norm for one row of n adjacent values:
//   y = (x - mean) * rstd * weight + bias.
// For layer_norm, rstd is 1 / sqrt(variance + eps). For rms_norm, mean is 0 and rstd is 1 /
// sqrt(mean(x^2) + eps). Inputs in float32 are converted to float64.
#pragma once

#include <cmath>

#include "autograd/base/index.h"
#include "autograd/kernels/reference/reduce.h"

namespace heed::autograd::kernels {

/// Statistics of a row x. The backward computes the gradients from them and from x.
template <class T>
struct Moments {
  Accumulator<T> mean;  ///< mean of the row; 0 for rms_norm
  Accumulator<T> rstd;  ///< reciprocal of the standard deviation, or of the root mean square
};

/// Outputs of the backward for a chunk of rows. They must not overlap the inputs or each other. If
/// `weight` is null, the gradient of bias is not computed either.
template <class T>
struct NormGrads {
  T* x = nullptr;       ///< [rows, n]; gradient of x, overwritten; null if it is not needed
  T* weight = nullptr;  ///< [n]; the gradient of weight is added to it; null if it is not needed
  T* bias = nullptr;    ///< [n]; the gradient of bias is added to it; null if weight is null
};

namespace reference {

/// Returns the mean and 1 / sqrt(population variance + eps) of n values. The variance is computed
/// in a second pass over x, which avoids cancellation.
template <class T>
Moments<T> layer_norm_moments(const T* x, Index n, double eps) {
  using std::sqrt;
  using Acc = Accumulator<T>;
  const Acc mean = sum(x, n, 1) / Acc(double(n));
  const Acc squares = sum_of(0, n, [&](Index i) {
    const Acc centered = Acc(x[i]) - mean;
    return centered * centered;
  });
  return {mean, Acc(1) / sqrt(squares / Acc(double(n)) + Acc(eps))};
}

/// Returns 0 and 1 / sqrt(mean(x^2) + eps) of n values.
template <class T>
Moments<T> rms_norm_moments(const T* x, Index n, double eps) {
  using std::sqrt;
  using Acc = Accumulator<T>;
  const Acc squares = sum_of(0, n, [&](Index i) { return Acc(x[i]) * Acc(x[i]); });
  return {Acc(0), Acc(1) / sqrt(squares / Acc(double(n)) + Acc(eps))};
}

/// Computes y = (x - mean) * rstd * weight + bias for n values. A null weight means 1 and a null
/// bias means 0. y may be the same array as x.
template <class T>
void normalize(T* y, const T* x, Moments<T> m, const T* weight, const T* bias, Index n) {
  using Acc = Accumulator<T>;
  for (Index i = 0; i < n; ++i) {
    Acc value = (Acc(x[i]) - m.mean) * m.rstd;
    if (weight) value *= Acc(weight[i]);
    if (bias) value += Acc(bias[i]);
    y[i] = T(value);
  }
}

/// Computes the gradient dx of one row from g, the gradient of y. With u = (x - mean) * rstd and h
/// = g * weight:
///   dx = rstd * (h - mean(h) - u * mean(h * u)).
/// The term mean(h) is the gradient through the mean of x. It is left out if `centered` is false
/// (rms_norm).
template <class T>
void normalize_backward(T* dx, const T* g, const T* x, Moments<T> m, const T* weight, Index n,
                        bool centered) {
  using Acc = Accumulator<T>;
  const auto h = [&](Index i) { return weight ? Acc(g[i]) * Acc(weight[i]) : Acc(g[i]); };
  const auto u = [&](Index i) { return (Acc(x[i]) - m.mean) * m.rstd; };
  const Acc mean_h = centered ? sum_of(0, n, h) / Acc(double(n)) : Acc(0);
  const Acc mean_hu = sum_of(0, n, [&](Index i) { return h(i) * u(i); }) / Acc(double(n));
  for (Index i = 0; i < n; ++i) dx[i] = T(m.rstd * (h(i) - mean_h - u(i) * mean_hu));
}

/// Adds the contribution of one row to the gradients of the parameters: dweight += g * u and dbias
/// += g, where u = (x - mean) * rstd. The sums have type T, not Accumulator<T>, because the
/// caller sums only 32 rows in this way.
template <class T>
void add_parameter_grads(T* dweight, T* dbias, const T* g, const T* x, Moments<T> m, Index n) {
  using Acc = Accumulator<T>;
  for (Index i = 0; i < n; ++i) {
    dweight[i] += T(Acc(g[i]) * ((Acc(x[i]) - m.mean) * m.rstd));
    dbias[i] += g[i];
  }
}

}  // namespace reference
}  // namespace heed::autograd::kernels
