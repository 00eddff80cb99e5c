// Fused attention that never stores a whole [tq, tk] matrix of scores (FlashAttention, Dao et al.
// 2022). Scores are computed in tiles that stay in the cache. The backward computes the weights
// again, from the log-sum-exp of each row. Tiles that causality, a window or a mask hides are
// skipped (visible_keys.h).
//
// Arrays have the shape [leading axes, rows, columns]. The leading axes, for example [batch,
// heads], together form one list of heads. All strides are in elements.
#pragma once

#include <array>
#include <cstdint>

#include "autograd/base/index.h"

namespace heed::autograd::kernels {

inline constexpr int kMaxLead = 6;  ///< largest number of leading axes
/// One number per leading axis: a size, an index or a stride. Unused entries are 0.
using LeadAxes = std::array<Index, kMaxLead>;

/// Strides of an array [leading axes, rows, d]. The values of a row are adjacent.
struct HeadStrides {
  LeadAxes lead = {};  ///< stride along each leading axis
  Index row = 0;       ///< stride between rows
};
/// Strides of an array [leading axes, tq, tk]. The stride is 0 along axes over which the array is
/// broadcast.
struct ScoreStrides {
  LeadAxes lead = {};  ///< stride along each leading axis
  Index row = 0;       ///< stride between queries
  Index column = 0;    ///< stride between keys
};

/// The arguments of attention that do not depend on the scalar type: sizes, and the keys that each
/// query may read. Query i may read key j unless `causal`, `window` or `keep` forbids it, or a bias
/// of -inf. The position of query i among the keys is i + tk - tq.
struct AttentionShape {
  int lead_axes = 0;           ///< number of leading axes
  LeadAxes lead = {};          ///< size of each leading axis
  Index tq = 0;                ///< number of queries
  Index tk = 0;                ///< number of keys and values
  Index d = 0;                 ///< size of a query and of a key, at most kMaxHead
  Index d_value = 0;           ///< size of a value, at most kMaxHead
  bool causal = false;         ///< if true, keys after the query's position are hidden
  Index window = 0;            ///< if not 0, keys at distance `window` or farther are hidden
  const bool* keep = nullptr;  ///< keep-mask [leading axes, tq, tk] or null; true = may attend
  ScoreStrides keep_at;        ///< strides of `keep`

  /// Returns the number of heads, the product of the sizes of the leading axes.
  Index heads() const {
    Index n = 1;
    for (int i = 0; i < lead_axes; ++i) n *= lead[std::size_t(i)];
    return n;
  }
};

/// Arguments of attention: out = dropout(softmax(s)) v for every head, where s = q k^T scale +
/// bias, and s is -inf for hidden keys.
///
/// Outputs must not overlap inputs or each other, and heads must not share output memory. Several
/// heads may share keys and values (stride 0). A key that a query may not read changes no bit of
/// the query's results, and the query changes no bit of the key's gradients, whatever values the
/// key and the query have. If a query may read no key, its output is 0 and its log-sum-exp is -inf.
template <class T>
struct Attention : AttentionShape {
  const T* q = nullptr;  ///< queries, [leading axes, tq, d]
  const T* k = nullptr;  ///< keys, [leading axes, tk, d]
  const T* v = nullptr;  ///< values, [leading axes, tk, d_value]
  T* out = nullptr;      ///< output, [leading axes, tq, d_value]
  HeadStrides q_at;      ///< strides of q
  HeadStrides k_at;      ///< strides of k
  HeadStrides v_at;      ///< strides of v
  HeadStrides out_at;    ///< strides of out
  /// Output [2, leading axes, tq]: the rounded log-sum-exp of the scores, which can be -inf, and
  /// the exact log-sum-exp minus the rounded one.
  double* lse = nullptr;
  double scale = 1;  ///< factor of q k^T

  const T* bias = nullptr;        ///< null or [leading axes, tq, tk]; added to the scaled scores
  ScoreStrides bias_at;           ///< strides of bias
  double dropout = 0;             ///< probability that a weight is dropped
  std::uint64_t dropout_key = 0;  ///< key of the DropoutMask (reference/philox.h)

  // Outputs that a probe records, row-major [leading axes, tq, tk]; null if they are not needed.
  // Writing them does not change a bit of the other outputs.
  T* raw_scores = nullptr;  ///< q k^T scale; 0 for a hidden key if the score is not finite
  T* scores = nullptr;      ///< q k^T scale + bias; -inf for hidden keys
  T* pattern = nullptr;     ///< weights before dropout
  T* dropped = nullptr;     ///< weights after dropout
};

/// Additional arguments of the backward. The backward overwrites dq, dk, dv and all other outputs
/// that are not null. Outputs must not overlap inputs or each other, and two heads must not share
/// memory in dq, dk or dv.
template <class T>
struct AttentionGrads {
  const T* grad_out = nullptr;  ///< gradient of out, [leading axes, tq, d_value]
  HeadStrides grad_out_at;      ///< strides of grad_out
  T* dq = nullptr;              ///< gradient of q, [leading axes, tq, d]
  T* dk = nullptr;              ///< gradient of k, [leading axes, tk, d]
  T* dv = nullptr;              ///< gradient of v, [leading axes, tk, d_value]
  HeadStrides dq_at;            ///< strides of dq
  HeadStrides dk_at;            ///< strides of dk
  HeadStrides dv_at;            ///< strides of dv
  T* dbias = nullptr;           ///< null or the gradient of bias, summed over axes with stride 0
  ScoreStrides dbias_at;        ///< strides of dbias
  Index dbias_size = 0;         ///< number of values in dbias, which are adjacent

  // Outputs that a probe records, row-major [leading axes, tq, tk]; null if they are not needed.
  // Writing them does not change a bit of the other outputs.
  T* dscores = nullptr;   ///< gradient of the scores, after masking
  T* dpattern = nullptr;  ///< gradient of the weights before dropout
  T* ddropped = nullptr;  ///< gradient of the weights after dropout
};

inline constexpr Index kMaxHead = 256;  ///< largest d and d_value

namespace simd {

/// Computes the forward or the backward of attention. The results have the same bits at any number
/// of threads. d and d_value must be at most kMaxHead.
void attention(const Attention<float>& a);
void attention(const Attention<double>& a);
void attention_backward(const Attention<float>& a, const AttentionGrads<float>& g);
void attention_backward(const Attention<double>& a, const AttentionGrads<double>& g);

}  // namespace simd
}  // namespace heed::autograd::kernels
