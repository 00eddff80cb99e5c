// Reference version of softmax and log-softmax for one row. Dual numbers use this version, too. x
// and y may be the same array if their strides are equal. Strides are in elements.
#pragma once

#include <cmath>
#include <limits>

#include "autograd/kernels/reference/reduce.h"

namespace heed::autograd::kernels::reference {

/// Returns the largest of n values. For dual numbers, the tangent is left out. Returns -inf if n is
/// 0, and NaN if a value is NaN.
template <class T>
double row_max(const T* x, Index n, Index stride) {
  double top = -std::numeric_limits<double>::infinity();
  for (Index i = 0; i < n; ++i) {
    const double v = double(real(x[i * stride]));
    if (v > top || v != v) top = v;
    if (top != top) break;
  }
  return top;
}

/// Returns exp(x - top) for values x whose largest value is `top`, which must be finite. Returns 0
/// for the first value that equals `top`. log1p of the sum of the results is then log(sum(exp(x -
/// top))), and more accurate, because log(1 + rest) would lose the digits of a small rest.
template <class T>
class ExpBelow {
 public:
  explicit ExpBelow(double top) : top_(top) {}
  Accumulator<T> operator()(T x) {
    using std::exp;
    if (found_ || double(real(x)) != top_) return Accumulator<T>(exp(x - T(top_)));
    found_ = true;
    return Accumulator<T>(x) - Accumulator<T>(top_);  // 0, with the tangent of exp(x - top)
  }

 private:
  double top_;
  bool found_ = false;
};

/// Computes y = softmax(x) for n values. If all values are -inf, y is 0. In attention this is a
/// fully masked row.
template <class T>
void softmax_row(T* y, Index y_stride, const T* x, Index x_stride, Index n) {
  using std::exp;
  const double top = row_max(x, n, x_stride);
  if (top == -std::numeric_limits<double>::infinity()) {
    for (Index i = 0; i < n; ++i) y[i * y_stride] = T(0);
    return;
  }
  const Accumulator<T> total = sum_of(0, n, [&](Index i) {
    return Accumulator<T>(y[i * y_stride] = exp(x[i * x_stride] - T(top)));  // exp is at most 1
  });
  const T scale = T(Accumulator<T>(1) / total);
  for (Index i = 0; i < n; ++i) y[i * y_stride] = y[i * y_stride] * scale;
}

/// Computes y = x - logsumexp(x) for n values. If all values are -inf, y is -inf.
template <class T>
void log_softmax_row(T* y, Index y_stride, const T* x, Index x_stride, Index n) {
  using std::log1p;
  using Acc = Accumulator<T>;
  const double top = row_max(x, n, x_stride);
  if (top == -std::numeric_limits<double>::infinity()) {
    for (Index i = 0; i < n; ++i) y[i * y_stride] = x[i * x_stride];
    return;
  }
  ExpBelow<T> exp_below(top);
  const Acc log_total = log1p(sum_of(0, n, [&](Index i) { return exp_below(x[i * x_stride]); }));
  for (Index i = 0; i < n; ++i) y[i * y_stride] = T((Acc(x[i * x_stride]) - Acc(top)) - log_total);
}

}  // namespace heed::autograd::kernels::reference
