#include "autograd/mask.h"

#include "autograd/ops.h"

namespace heed::autograd {

KeepMask::KeepMask(const Tensor& keep) : keep_(keep) {
  check<DTypeError>(keep.dtype() == bool8, "KeepMask", "needs bool8 (true = may attend), got ",
                    keep.dtype(), "; compare first, as in ne(mask, 0)");
  while (keep_.rank() < 2) keep_ = unsqueeze(keep_, 0);
}

KeepMask KeepMask::causal(std::int64_t tq, std::int64_t tk) {
  return KeepMask(tril_mask(tq, tk, tk - tq));
}

KeepMask KeepMask::padding(std::span<const std::int64_t> lengths, std::int64_t tk) {
  const std::int64_t batch = std::int64_t(lengths.size());
  Tensor keep = empty({batch, 1, 1, tk}, bool8);
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = lengths[std::size_t(b)];
    check<ValueError>(length >= 0 && length <= tk, "KeepMask::padding", "length ", length,
                      " of sequence ", b, " is outside 0 to ", tk);
    for (std::int64_t t = 0; t < tk; ++t) keep.mutable_data<bool>()[b * tk + t] = t < length;
  }
  return KeepMask(keep);
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
  check<ValueError>(a.defined(), "KeepMask", "the opposite of keeping everything keeps nothing");
  return KeepMask(logical_not(a.keep_));
}

}  // namespace heed::autograd
