// Rows of layer_norm and rms_norm: the plain reference, on raw memory. Both are
//   y = (x - mean) * rstd * weight + bias,
// rms_norm with mean 0. float32 is computed in float64.
#pragma once

#include <cmath>
#include <cstdint>

#include "autograd/kernels/reference/reduce.h"

namespace heed::autograd::kernels {

/// Statistics of a row: all that its backward needs besides x.
template <class T>
struct Moments {
  Accumulator<T> mean, rstd;
};

/// Outputs of the backward of a chunk of rows.
template <class T>
struct NormGrads {
  T* x = nullptr;       ///< [rows, n]; null: not wanted
  T* weight = nullptr;  ///< [n], added to; null: neither it nor bias is wanted
  T* bias = nullptr;
};

namespace reference {

/// Mean and 1 / sqrt(population variance + eps) of n values. Two passes: no cancellation.
template <class T>
Moments<T> layer_norm_moments(const T* x, std::int64_t n, double eps) {
  using std::sqrt;
  using Acc = Accumulator<T>;
  const Acc mean = sum(x, n, 1) / Acc(double(n));
  Acc squares{};
  for (std::int64_t i = 0; i < n; ++i) {
    const Acc centered = Acc(x[i]) - mean;
    squares += centered * centered;
  }
  return {mean, Acc(1) / sqrt(squares / Acc(double(n)) + Acc(eps))};
}

/// 0 and 1 / sqrt(mean(x^2) + eps).
template <class T>
Moments<T> rms_norm_moments(const T* x, std::int64_t n, double eps) {
  using std::sqrt;
  using Acc = Accumulator<T>;
  Acc squares{};
  for (std::int64_t i = 0; i < n; ++i) squares += Acc(x[i]) * Acc(x[i]);
  return {Acc(0), Acc(1) / sqrt(squares / Acc(double(n)) + Acc(eps))};
}

/// y = (x - mean) * rstd * weight + bias over n values. A null weight is 1, a null bias 0.
template <class T>
void normalize(T* y, const T* x, Moments<T> m, const T* weight, const T* bias, std::int64_t n) {
  using Acc = Accumulator<T>;
  for (std::int64_t i = 0; i < n; ++i) {
    Acc value = (Acc(x[i]) - m.mean) * m.rstd;
    if (weight) value *= Acc(weight[i]);
    if (bias) value += Acc(bias[i]);
    y[i] = T(value);
  }
}

/// dx of one row from g = dL/dy. With u = (x - mean) * rstd and h = g * weight:
///   dx = rstd * (h - mean(h) - u * mean(h * u)),
/// where mean(h) is what flows through the mean, and so absent unless `centered` (layer_norm).
template <class T>
void normalize_backward(T* dx, const T* g, const T* x, Moments<T> m, const T* weight,
                        std::int64_t n, bool centered) {
  using Acc = Accumulator<T>;
  const auto h = [&](std::int64_t i) { return weight ? Acc(g[i]) * Acc(weight[i]) : Acc(g[i]); };
  const auto u = [&](std::int64_t i) { return (Acc(x[i]) - m.mean) * m.rstd; };
  Acc mean_h{}, mean_hu{};
  for (std::int64_t i = 0; i < n; ++i) {
    if (centered) mean_h += h(i);
    mean_hu += h(i) * u(i);
  }
  mean_h /= Acc(double(n));
  mean_hu /= Acc(double(n));
  for (std::int64_t i = 0; i < n; ++i) dx[i] = T(m.rstd * (h(i) - mean_h - u(i) * mean_hu));
}

/// dweight += g * u and dbias += g: what one row adds to the gradients of the parameters. The sums
/// are those of a chunk of rows, short enough for T itself.
template <class T>
void add_parameter_grads(T* dweight, T* dbias, const T* g, const T* x, Moments<T> m,
                         std::int64_t n) {
  using Acc = Accumulator<T>;
  for (std::int64_t i = 0; i < n; ++i) {
    dweight[i] += T(Acc(g[i]) * ((Acc(x[i]) - m.mean) * m.rstd));
    dbias[i] += g[i];
  }
}

}  // namespace reference
}  // namespace heed::autograd::kernels
