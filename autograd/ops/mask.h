// Masks and biases of attention scores. KeepMask selects keys for each query (true = may attend);
// ScoreBias is added to the scores. They are separate types, because a mask of 0 and 1 that is
// added to the scores by mistake would mask nothing.
//
// Tq is the number of queries, Tk the number of keys, B the batch size and H the number of heads.
// Masks are bool8, biases float32 or float64.
#pragma once

#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// Keep-mask: bool8, broadcastable to [..., Tq, Tk]. The value true means that the query may attend
/// to the key. For scores [B, H, Tq, Tk], a mask per sequence has shape [B, 1, Tq, Tk]. An
/// undefined mask (the default) keeps all keys for every query.
class KeepMask {
 public:
  KeepMask() = default;
  /// Creates a KeepMask from the tensor `keep`. A tensor of shape [Tk] becomes [1, Tk]: every query
  /// may read the same keys. Throws DTypeError unless `keep` is bool8, because a float mask could
  /// also be meant as a bias.
  explicit KeepMask(const Tensor& keep);
  /// Returns the mask [Tq, Tk] in which no query reads a key after the query's position. Query i
  /// has position i + Tk - Tq among the keys, so the last query is at the last key.
  static KeepMask causal(Index tq, Index tk);
  /// Returns the mask [Tq, Tk] in which a query reads the keys at a distance below `window` from
  /// the query's position (see causal()), before and after it. Combined with causal() by `&`, each
  /// query reads the last `window` keys up to its position (Beltagy et al. 2020).
  /// AttentionOptions::window has this effect without a mask. Throws ValueError unless `window` is
  /// positive.
  static KeepMask sliding_window(Index tq, Index tk, Index window);
  /// Returns the mask [B, 1, 1, Tk] in which sequence b keeps its first lengths[b] keys; the rest
  /// is padding. Throws ValueError for a length outside 0 to tk.
  static KeepMask padding(std::span<const Index> lengths, Index tk);

  /// Returns false if this mask is undefined, so that it keeps all keys.
  bool defined() const { return keep_.defined(); }
  /// Returns the mask as a bool8 tensor of rank 2 or more; undefined if this mask is undefined.
  const Tensor& tensor() const { return keep_; }
  /// Returns `scores` [..., Tq, Tk] where the mask is true, and -inf elsewhere. Throws ShapeError
  /// if `scores` and the mask do not broadcast.
  Tensor apply(const Tensor& scores) const;
  /// Returns the mask that is true where a and b are both true. An undefined operand is true
  /// everywhere, here and in the next function.
  friend KeepMask operator&(const KeepMask& a, const KeepMask& b);
  /// Returns the mask that is true where a or b is true.
  friend KeepMask operator|(const KeepMask& a, const KeepMask& b);
  /// Returns the inverted mask. Throws ValueError if a is undefined.
  friend KeepMask operator!(const KeepMask& a);

 private:
  Tensor keep_;
};

/// Term added to the scaled scores: a float32 or float64 tensor, broadcastable to [..., Tq, Tk]. It
/// is differentiable. An undefined bias (the default) adds nothing.
class ScoreBias {
 public:
  ScoreBias() = default;
  /// Creates a ScoreBias from the tensor `bias`. Throws DTypeError for bool8 and int64. Throws
  /// ValueError if the tensor does not require grad and holds only 0 and 1, with at least one 1:
  /// such a tensor is a mask, and adding it masks nothing. A tensor that was computed from a
  /// parameter under NoGrad does not require grad.
  explicit ScoreBias(const Tensor& bias);
  /// Returns the ALiBi bias [H, Tq, Tk] for H = heads: -slope * distance, where distance is the
  /// distance of the key from the query's position (KeepMask::causal). If H is a power of two, head
  /// h = 1, ..., H has slope 2^(-8 h / H). Otherwise, let P be the largest power of two below H.
  /// The first P heads have the slopes of P heads. The other heads have the slopes of the heads 1,
  /// 3, 5, ... of 2 P heads, as in the code of ALiBi (Press et al. 2022). Throws ValueError unless
  /// heads > 0.
  static ScoreBias alibi(Index heads, Index tq, Index tk, DType dtype = float32);

  /// Returns false if this bias is undefined, so that it adds nothing.
  bool defined() const { return bias_.defined(); }
  /// Returns the bias as a tensor; undefined if this bias is undefined.
  const Tensor& tensor() const { return bias_; }
  /// Returns the sum of two biases.
  friend ScoreBias operator+(const ScoreBias& a, const ScoreBias& b);

 private:
  Tensor bias_;
};

}  // namespace heed::autograd
