// Rows of cross-entropy: the plain reference, on raw memory. No log-probability is stored; a row
// leaves its log-sum-exp, in two parts, for the backward. float32 is computed in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "autograd/kernels/reference/softmax.h"

namespace heed::autograd::kernels {

/// log(sum(exp(x))) of a row as top + log_total, top its largest value and log_total in [0, log n]:
/// (x - top) - log_total keeps digits that x - (top + log_total) loses for large logits.
template <class T>
struct LogSumExp {
  Accumulator<T> top, log_total;
};

namespace reference {

/// One row of n logits and its target class:
///   (1 - smoothing) * -log p[target] + smoothing / n * sum of -log p.
/// A term of weight 0 is left out, not multiplied: its -log p may be inf. A row that is all -inf
/// has no probabilities: loss inf.
template <class T>
Accumulator<T> cross_entropy(LogSumExp<T>& lse, const T* x, std::int64_t n, std::int64_t target,
                             double smoothing) {
  using std::exp, std::log;
  using Acc = Accumulator<T>;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double top = row_max(x, n, 1);  // a plain shift: its own derivative cancels
  lse = {Acc(top), Acc(0)};
  if (top == -kInfinity) return Acc(kInfinity);
  Acc total{}, below_top{};
  for (std::int64_t i = 0; i < n; ++i) {
    total += exp(Acc(x[i]) - Acc(top));
    below_top += Acc(top) - Acc(x[i]);
  }
  const Acc log_total = lse.log_total = log(total);
  Acc loss{};
  if (smoothing < 1) loss += Acc(1 - smoothing) * (log_total + (Acc(top) - Acc(x[target])));
  if (smoothing > 0) loss += Acc(smoothing) * (log_total + below_top / Acc(double(n)));
  return loss;
}

/// dx = scale * (softmax(x) - target distribution), with `scale` the upstream gradient of this
/// row's loss. A row that is all -inf gets 0.
template <class T>
void cross_entropy_backward(T* dx, const T* x, std::int64_t n, std::int64_t target,
                            double smoothing, LogSumExp<T> lse, Accumulator<T> scale) {
  using std::exp;
  using Acc = Accumulator<T>;
  if (lse.top == Acc(-std::numeric_limits<double>::infinity())) {
    std::fill_n(dx, n, T(0));
    return;
  }
  const Acc spread(smoothing / double(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const Acc wanted = i == target ? Acc(1 - smoothing) + spread : spread;
    dx[i] = T(scale * (exp((Acc(x[i]) - lse.top) - lse.log_total) - wanted));
  }
}

}  // namespace reference
}  // namespace heed::autograd::kernels
