// Reference version of softmax and log-softmax for one row. Dual numbers use this version, too. x
// and y may be the same array if their strides are equal. Strides are in elements.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "autograd/kernels/reference/reduce.h"

namespace heed::autograd::kernels::reference {

/// Returns the largest of n values. For dual numbers, the tangent is left out. Returns -inf if n is
/// 0, and NaN if a value is NaN.
template <class T>
double row_max(const T* x, std::int64_t n, std::int64_t stride) {
  double top = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; ++i) {
    const double v = double(real(x[i * stride]));
    if (v > top || v != v) top = v;
    if (top != top) break;
  }
  return top;
}

/// Computes log(sum(exp(x - top))) of values x whose largest value is `top`, which must be finite.
/// The first value that equals `top` contributes exactly 1 to the sum. The class sums the other
/// terms and returns log1p of their sum, because log(1 + sum) would lose the digits of a small sum.
template <class T>
class LogSum {
 public:
  explicit LogSum(double top) : top_(top) {}
  /// Adds the term of x.
  void add(T x) {
    using std::exp;
    if (!found_top_ && double(real(x)) == top_) {
      found_top_ = true;
      rest_ += Accumulator<T>(x) - Accumulator<T>(top_);  // 0, with the tangent of exp(x - top)
    } else {
      rest_ += Accumulator<T>(exp(x - T(top_)));
    }
  }
  /// Adds the terms of n values.
  void add(const T* x, std::int64_t n, std::int64_t stride) {
    for (std::int64_t i = 0; i < n; ++i) add(x[i * stride]);
  }
  /// Returns the logarithm of the sum of all terms.
  Accumulator<T> log() const {
    using std::log1p;
    return log1p(rest_);
  }

 private:
  double top_;
  bool found_top_ = false;
  Accumulator<T> rest_{};
};

/// Computes y = softmax(x) for n values. If all values are -inf, y is 0. In attention this is a
/// fully masked row.
template <class T>
void softmax_row(T* y, std::int64_t y_stride, const T* x, std::int64_t x_stride, std::int64_t n) {
  using std::exp;
  const double top = row_max(x, n, x_stride);
  if (top == -std::numeric_limits<double>::infinity()) {
    for (std::int64_t i = 0; i < n; ++i) y[i * y_stride] = T(0);
    return;
  }
  Accumulator<T> total{};
  for (std::int64_t i = 0; i < n; ++i) {
    const T e = exp(x[i * x_stride] - T(top));  // e is at most 1, so exp cannot overflow
    y[i * y_stride] = e;
    total += Accumulator<T>(e);
  }
  const T scale = T(Accumulator<T>(1) / total);
  for (std::int64_t i = 0; i < n; ++i) y[i * y_stride] = y[i * y_stride] * scale;
}

/// Computes y = x - logsumexp(x) for n values. If all values are -inf, y is -inf.
template <class T>
void log_softmax_row(T* y, std::int64_t y_stride, const T* x, std::int64_t x_stride,
                     std::int64_t n) {
  using Acc = Accumulator<T>;
  const double top = row_max(x, n, x_stride);
  if (top == -std::numeric_limits<double>::infinity()) {
    for (std::int64_t i = 0; i < n; ++i) y[i * y_stride] = x[i * x_stride];
    return;
  }
  LogSum<T> sum(top);
  sum.add(x, n, x_stride);
  const Acc log_total = sum.log();
  for (std::int64_t i = 0; i < n; ++i)
    y[i * y_stride] = T((Acc(x[i * x_stride]) - Acc(top)) - log_total);
}

}  // namespace heed::autograd::kernels::reference
