#include "autograd/ops/mask.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "autograd/ops/ops.h"

namespace heed::autograd {

KeepMask::KeepMask(const Tensor& keep) : keep_(keep) {
  check<DTypeError>(keep.dtype() == bool8, "KeepMask", "needs bool8 (true = may attend), got ",
                    keep.dtype(), "; compare first, as in ne(mask, 0)");
  while (keep_.rank() < 2) keep_ = unsqueeze(keep_, 0);
}

KeepMask KeepMask::causal(Index tq, Index tk) { return KeepMask(tril_mask(tq, tk, tk - tq)); }

KeepMask KeepMask::sliding_window(Index tq, Index tk, Index window) {
  check<ValueError>(window > 0, "KeepMask::sliding_window", "needs window > 0, got ", window);
  const Index most = std::min(window - 1, tq + tk);  // limited, to avoid overflow below
  const Index first = tk - tq;
  return KeepMask(logical_and(tril_mask(tq, tk, first + most),
                              logical_not(tril_mask(tq, tk, first - most - 1))));
}

KeepMask KeepMask::padding(std::span<const Index> lengths, Index tk) {
  const Index batch = Index(lengths.size());
  Tensor keep = empty({batch, 1, 1, tk}, bool8);
  for (Index b = 0; b < batch; ++b) {
    const Index length = lengths[std::size_t(b)];
    check<ValueError>(length >= 0 && length <= tk, "KeepMask::padding", "length ", length,
                      " of sequence ", b, " is outside 0 to ", tk);
    for (Index t = 0; t < tk; ++t) keep.mutable_data<bool>()[b * tk + t] = t < length;
  }
  return KeepMask(keep);
}

Tensor KeepMask::apply(const Tensor& scores) const {
  if (!defined()) return scores;
  return masked_fill(expand(scores, broadcast("attention", scores.shape(), keep_.shape())),
                     logical_not(keep_), -kInf);
}

KeepMask operator&(const KeepMask& a, const KeepMask& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return KeepMask(logical_and(a.keep_, b.keep_));
}
KeepMask operator|(const KeepMask& a, const KeepMask& b) {
  if (!a.defined() || !b.defined()) return {};
  return KeepMask(logical_or(a.keep_, b.keep_));
}
KeepMask operator!(const KeepMask& a) {
  check<ValueError>(
      a.defined(), "KeepMask",
      "cannot invert an undefined mask: it keeps every key, so its inverse would keep none");
  return KeepMask(logical_not(a.keep_));
}

namespace {

// Returns true if x is a constant with only elements 0 and 1, and at least one 1.
bool is_zero_one_mask(const Tensor& x) {
  if (x.numel() == 0 || x.requires_grad() || !is_real(x.dtype())) return false;
  const Tensor one = eq(x, 1.0);
  return any(one).item<bool>() && all(logical_or(one, eq(x, 0.0))).item<bool>();
}

// Returns the slope that ScoreBias::alibi() uses for a head. Heads are counted from 0 here.
double alibi_slope(Index head, Index heads) {
  Index power = 1;
  while (2 * power <= heads) power *= 2;
  if (head < power) return std::exp2(-8 * double(head + 1) / double(power));
  return std::exp2(-8 * double(2 * (head - power) + 1) / double(2 * power));
}

}  // namespace

ScoreBias::ScoreBias(const Tensor& bias) : bias_(bias) {
  check<DTypeError>(is_floating(bias.dtype()), "ScoreBias", "needs float32 or float64, got ",
                    bias.dtype(), "; for true or false per key use KeepMask");
  check<ValueError>(!is_zero_one_mask(bias), "ScoreBias",
                    "holds only 0 and 1: added to scores, such a mask masks nothing. "
                    "Use KeepMask(ne(mask, 0)), or KeepMask(eq(mask, 0)) where 1 means hidden");
}

ScoreBias ScoreBias::alibi(Index heads, Index tq, Index tk, DType dtype) {
  check<ValueError>(heads > 0, "ScoreBias::alibi", "needs heads > 0, got ", heads);
  const Tensor bias = empty({heads, tq, tk}, float64);
  double* at = bias.mutable_data<double>();
  for (Index h = 0; h < heads; ++h) {
    const double slope = alibi_slope(h, heads);
    for (Index i = 0; i < tq; ++i)
      for (Index j = 0; j < tk; ++j) *at++ = -slope * double(std::abs(i + tk - tq - j));
  }
  return ScoreBias(to(bias, dtype));
}

ScoreBias operator+(const ScoreBias& a, const ScoreBias& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  // The constructor is not called, because it rejects a bias of only 0 and 1 as a mistaken mask. A
  // sum of two biases may have only these values.
  ScoreBias both;
  both.bias_ = a.bias_ + b.bias_;
  return both;
}

}  // namespace heed::autograd
