// Reference version of cross-entropy for one row of logits. Log-probabilities are not stored. The
// forward saves the log-sum-exp of the row for the backward. Inputs in float32 are converted to
// float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/base/index.h"
#include "autograd/kernels/reference/softmax.h"

namespace heed::autograd::kernels {

/// The log-sum-exp of a row x of n logits, which is top + log_total. The two numbers are stored
/// separately, because (x - top) - log_total is more accurate than x - (top + log_total) if the
/// logits are large.
template <class T>
struct LogSumExp {
  Accumulator<T> top;        ///< largest value of the row
  Accumulator<T> log_total;  ///< log(sum(exp(x - top))), between 0 and log n
};

namespace reference {

/// Returns the loss of a row x of n logits, where p = softmax(x):
///   (1 - smoothing) * -log p[target] + smoothing / n * sum(-log p).
/// A term whose factor is 0 is left out, because -log p may be inf and 0 * inf is NaN. If all
/// logits are -inf, the loss is inf. Writes the log-sum-exp of the row to `lse`.
template <class T>
Accumulator<T> cross_entropy(LogSumExp<T>& lse, const T* x, Index n, Index target,
                             double smoothing) {
  using std::log1p;
  using Acc = Accumulator<T>;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double top = row_max(x, n, 1);  // without tangent, because top cancels in the loss
  lse = {Acc(top), Acc(0)};
  if (top == -kInfinity) return Acc(kInfinity);
  ExpBelow<T> exp_below(top);
  const Acc log_total = lse.log_total =
      log1p(sum_of(0, n, [&](Index i) { return exp_below(x[i]); }));
  const Acc below_top = sum_of(0, n, [&](Index i) { return Acc(top) - Acc(x[i]); });
  Acc loss{};
  if (smoothing < 1) loss += Acc(1 - smoothing) * (log_total + (Acc(top) - Acc(x[target])));
  if (smoothing > 0) loss += Acc(smoothing) * (log_total + below_top / Acc(double(n)));
  return loss;
}

/// Computes dx = scale * (softmax(x) - q) for a row of n logits, where q is the smoothed target
/// distribution and `scale` is the gradient of this row's loss. If all logits are -inf, dx is 0. dx
/// may be the same array as x.
template <class T>
void cross_entropy_backward(T* dx, const T* x, Index n, Index target, double smoothing,
                            LogSumExp<T> lse, Accumulator<T> scale) {
  using std::exp;
  using Acc = Accumulator<T>;
  if (lse.top == Acc(-std::numeric_limits<double>::infinity())) {
    std::fill_n(dx, n, T(0));
    return;
  }
  const Acc spread(smoothing / double(n)), inverse_total = exp(-lse.log_total);
  for (Index i = 0; i < n; ++i) {
    const Acc wanted = i == target ? Acc(1 - smoothing) + spread : spread;
    dx[i] = T(scale * (exp(Acc(x[i]) - lse.top) * inverse_total - wanted));
  }
}

}  // namespace reference
}  // namespace heed::autograd::kernels
