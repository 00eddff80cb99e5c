// Masks and biases of attention's scores: KeepMask selects keys for each query (true = may attend),
// ScoreBias is added. Two types, because a float mask of 0 and 1 that is added masks nothing.
#pragma once

#include <cstdint>

#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// Alignment of causality if there are fewer or more queries than keys.
enum class CausalAlignment {
  kBottomRight,  ///< query i sees keys up to i + Tk - Tq: the last query sees all (a KV cache)
  kTopLeft,      ///< query i sees keys up to i (PyTorch's is_causal)
};

/// Returns the place of query 0 among the keys; query i is i further. Below 0 where a bottom-right
/// alignment leaves no key for it.
std::int64_t first_query(std::int64_t tq, std::int64_t tk, CausalAlignment alignment);

/// bool8, broadcastable to [..., Tq, Tk]: a mask per sequence of [B, H, Tq, Tk] scores is
/// [B, 1, Tq, Tk]. Undefined (the default) keeps everything.
class KeepMask {
 public:
  KeepMask() = default;
  /// DTypeError unless bool8: a float mask has two meanings, so it has none here. [Tk] is taken as
  /// [1, Tk]: the keys that every query may read.
  explicit KeepMask(const Tensor& keep);
  /// [Tq, Tk]: no key after the query.
  static KeepMask causal(std::int64_t tq, std::int64_t tk,
                         CausalAlignment alignment = CausalAlignment::kBottomRight);
  /// [Tq, Tk]: keys less than `window` away from the query, which stands where causal() puts it;
  /// `& causal(tq, tk)` leaves the last `window` keys, the query's own included (Beltagy et al.
  /// 2020). AttentionOptions::window does the same without a mask. ValueError unless window > 0.
  static KeepMask sliding_window(std::int64_t tq, std::int64_t tk, std::int64_t window,
                                 CausalAlignment alignment = CausalAlignment::kBottomRight);
  /// Sequence b has lengths[b] keys, the rest is padding: [B, 1, 1, Tk].
  static KeepMask padding(std::span<const std::int64_t> lengths, std::int64_t tk);
  /// Returns the mask for tk + 1 keys, the first of which every query may read: an attention sink.
  KeepMask with_sink_column(std::int64_t tk) const;

  bool defined() const { return keep_.defined(); }
  const Tensor& tensor() const { return keep_; }
  /// `scores` [..., Tq, Tk] where it keeps, -inf elsewhere: how attention is masked. ShapeError if
  /// they do not broadcast.
  Tensor apply(const Tensor& scores) const;
  /// Both, either, the opposite. Undefined operands keep everything.
  friend KeepMask operator&(const KeepMask& a, const KeepMask& b);
  friend KeepMask operator|(const KeepMask& a, const KeepMask& b);
  friend KeepMask operator!(const KeepMask& a);

 private:
  Tensor keep_;
};

/// Term added to scaled scores: float32 or float64, broadcastable to [..., Tq, Tk],
/// differentiable. Undefined (the default) adds nothing.
class ScoreBias {
 public:
  ScoreBias() = default;
  /// DTypeError for bool8 and int64. ValueError for an untracked tensor that holds only 0 and 1
  /// (and a 1): that is a mask, and added it masks nothing. A parameter is tracked; what is
  /// computed from one under NoGrad is not.
  explicit ScoreBias(const Tensor& bias);
  /// -slope_h * |distance| [H, Tq, Tk] from where causal() puts the query; slopes 2^(-8 h / H), h
  /// from 1, for H a power of two, else interleaved as in ALiBi's code (Press et al. 2022).
  static ScoreBias alibi(std::int64_t heads, std::int64_t tq, std::int64_t tk,
                         DType dtype = float32,
                         CausalAlignment alignment = CausalAlignment::kBottomRight);

  /// Returns the bias for tk + 1 keys, the first of which has the bias logits[h] in head h;
  /// undefined logits are 0. Before a key of zeros that is an attention sink's score.
  ScoreBias with_sink_column(const Tensor& logits, std::int64_t tk) const;

  bool defined() const { return bias_.defined(); }
  const Tensor& tensor() const { return bias_; }
  /// Both.
  friend ScoreBias operator+(const ScoreBias& a, const ScoreBias& b);

 private:
  Tensor bias_;
};

}  // namespace heed::autograd
