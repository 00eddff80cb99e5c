// Who may attend to whom. The polarity is in the type: true = may attend.
#pragma once

#include <cstdint>

#include "autograd/tensor.h"

namespace heed::autograd {

/// bool8, broadcastable to [..., Tq, Tk]. Undefined (the default) keeps everything.
class KeepMask {
 public:
  KeepMask() = default;
  /// DTypeError unless bool8: a float mask has two meanings, so it has none here. [Tk] is taken as
  /// [1, Tk]: the keys that every query may read.
  explicit KeepMask(const Tensor& keep);
  /// Query i sees keys up to i + Tk - Tq: aligned at the bottom right, the last query sees all.
  static KeepMask causal(std::int64_t tq, std::int64_t tk);
  /// Sequence b has lengths[b] keys, the rest is padding: [B, 1, 1, Tk].
  static KeepMask padding(std::span<const std::int64_t> lengths, std::int64_t tk);

  bool defined() const { return keep_.defined(); }
  const Tensor& tensor() const { return keep_; }
  /// Both, either, the opposite. Undefined operands keep everything.
  friend KeepMask operator&(const KeepMask& a, const KeepMask& b);
  friend KeepMask operator|(const KeepMask& a, const KeepMask& b);
  friend KeepMask operator!(const KeepMask& a);

 private:
  Tensor keep_;
};

}  // namespace heed::autograd
