// Masks and biases of attention scores. KeepMask selects keys for each query (true = may attend);
// ScoreBias is added to the scores. They are two types, because a float mask of 0 and 1 that is
// added would mask nothing.
//
// Tq is the number of queries, Tk the number of keys, B the batch size and H the number of heads.
// Masks are bool8, biases float32 or float64.
#pragma once

#include <cstdint>

#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// Alignment of queries to keys in causal masks and windows, if Tq and Tk differ.
enum class CausalAlignment {
  kBottomRight,  ///< query i reads keys up to i + Tk - Tq; the last query reads all (KV cache)
  kTopLeft,      ///< query i reads keys up to i (PyTorch's is_causal)
};

/// Returns the position of query 0 among the keys; query i has position i + that. It is negative if
/// kBottomRight leaves no key for query 0.
std::int64_t first_query(std::int64_t tq, std::int64_t tk, CausalAlignment alignment);

/// Keep-mask: bool8, broadcastable to [..., Tq, Tk], true = may attend. For scores [B, H, Tq, Tk],
/// a mask per sequence has shape [B, 1, Tq, Tk]. An undefined mask (the default) keeps everything.
class KeepMask {
 public:
  KeepMask() = default;
  /// Uses this mask. Shape [Tk] becomes [1, Tk]: the keys that every query may read. Throws
  /// DTypeError unless it is bool8, because a float mask could be meant in two ways.
  explicit KeepMask(const Tensor& keep);
  /// Returns the mask [Tq, Tk] in which no query reads a later key.
  static KeepMask causal(std::int64_t tq, std::int64_t tk,
                         CausalAlignment alignment = CausalAlignment::kBottomRight);
  /// Returns the mask [Tq, Tk] in which a query reads keys at a distance below `window`, before and
  /// after its position (that of causal()). `& causal(tq, tk)` leaves the last `window` keys, that
  /// of the query included (Beltagy et al. 2020). AttentionOptions::window has the same effect
  /// without a mask. Throws ValueError unless window > 0.
  static KeepMask sliding_window(std::int64_t tq, std::int64_t tk, std::int64_t window,
                                 CausalAlignment alignment = CausalAlignment::kBottomRight);
  /// Returns the mask [B, 1, 1, Tk] in which sequence b keeps its first lengths[b] keys; the rest
  /// is padding. Throws ValueError for a length outside 0 to tk.
  static KeepMask padding(std::span<const std::int64_t> lengths, std::int64_t tk);
  /// Returns the mask for tk + 1 keys. The new first key is an attention sink: every query may read
  /// it.
  KeepMask with_sink_column(std::int64_t tk) const;

  /// Returns false if the mask keeps everything.
  bool defined() const { return keep_.defined(); }
  /// Returns the mask, bool8 of rank 2 or more; undefined if it keeps everything.
  const Tensor& tensor() const { return keep_; }
  /// Returns `scores` [..., Tq, Tk] where the mask is true, -inf elsewhere. Throws ShapeError if
  /// they do not broadcast.
  Tensor apply(const Tensor& scores) const;
  /// Returns the mask that is true where both are.
  friend KeepMask operator&(const KeepMask& a, const KeepMask& b);
  /// Returns the mask that is true where at least one is.
  friend KeepMask operator|(const KeepMask& a, const KeepMask& b);
  /// Returns the inverted mask. Throws ValueError if a is undefined.
  friend KeepMask operator!(const KeepMask& a);

 private:
  Tensor keep_;
};

/// Term added to the scaled scores: float32 or float64, broadcastable to [..., Tq, Tk],
/// differentiable. An undefined bias (the default) adds nothing.
class ScoreBias {
 public:
  ScoreBias() = default;
  /// Uses this bias. Throws DTypeError for bool8 and int64. Throws ValueError if the tensor does
  /// not require grad and holds only 0 and 1, with at least one 1: such a tensor is a mask, and
  /// adding it masks nothing.
  explicit ScoreBias(const Tensor& bias);
  /// Returns the ALiBi bias [H, Tq, Tk]: -slope * distance, where a query has the position of
  /// causal(). If H is a power of two, head h, counted from 1, has slope 2^(-8 h / H). Otherwise
  /// slopes of two powers of two are interleaved, as in the code of ALiBi (Press et al. 2022).
  /// Throws ValueError unless heads > 0.
  static ScoreBias alibi(std::int64_t heads, std::int64_t tq, std::int64_t tk,
                         DType dtype = float32,
                         CausalAlignment alignment = CausalAlignment::kBottomRight);

  /// Returns the bias for tk + 1 keys. The new first key is an attention sink: its bias in head h
  /// is logits[h], or 0 if logits [H] are undefined. If that key consists of zeros, its bias is its
  /// score.
  ScoreBias with_sink_column(const Tensor& logits, std::int64_t tk) const;

  /// Returns false if the bias adds nothing.
  bool defined() const { return bias_.defined(); }
  /// Returns the bias; undefined if it adds nothing.
  const Tensor& tensor() const { return bias_; }
  /// Returns the sum of two biases.
  friend ScoreBias operator+(const ScoreBias& a, const ScoreBias& b);

 private:
  Tensor bias_;
};

}  // namespace heed::autograd
