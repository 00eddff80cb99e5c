// Attention on raw memory without its T x T matrices: blocks of scores live in cache only (Dao et
// al. 2022; the backward recomputes them from the log-sum-exp). Causal blocks beyond the diagonal
// and keys behind the last readable one are skipped.
#pragma once

#include <cstdint>

namespace heed::autograd::kernels {

/// Where [batch, heads, rows, d] lies: strides in elements, the last axis adjacent.
struct HeadStrides {
  std::int64_t batch = 0, head = 0, row = 0;
};
/// Where something of [batch, heads, tq, tk] lies; stride 0 along axes that it is broadcast over.
struct ScoreStrides {
  std::int64_t batch = 0, head = 0, row = 0, column = 0;
};

/// dropout(softmax(q k^T scale + bias, masked)) v for every batch and head.
template <class T>
struct Attention {
  std::int64_t batch = 1, heads = 1, tq = 0, tk = 0, d = 0, d_value = 0;
  const T* q = nullptr;  ///< [batch, heads, tq, d]
  const T* k = nullptr;  ///< [batch, heads, tk, d]
  const T* v = nullptr;  ///< [batch, heads, tk, d_value]
  T* out = nullptr;      ///< [batch, heads, tq, d_value]
  HeadStrides q_at, k_at, v_at, out_at;
  T* lse = nullptr;  ///< [batch, heads, tq]: log-sum-exp of each row of scores, -inf for no keys
  double scale = 1;
  bool causal = false;  ///< query i sees keys up to i + causal_offset
  std::int64_t causal_offset = 0;

  // Each of these may be null, or 0.
  const bool* keep = nullptr;  ///< true = may attend; what no query may read is not read as numbers
  ScoreStrides keep_at;
  const T* bias = nullptr;  ///< added to the scaled scores
  ScoreStrides bias_at;
  double dropout = 0;  ///< probability; weight i of [batch, heads, tq, tk] as DropoutMask says
  std::uint64_t dropout_key = 0;

  /// Written if not null, row-major [batch, heads, tq, tk]: q k^T scale of all keys that some query
  /// may read (0 for the others), the masked scores, the weights before and after dropout. The
  /// results keep their bits.
  T *raw_scores = nullptr, *scores = nullptr, *pattern = nullptr, *dropped = nullptr;
};

/// What the backward adds: from grad_out it writes all of dq, dk, dv and, if not null, dbias.
template <class T>
struct AttentionGrads {
  const T* grad_out = nullptr;  ///< [batch, heads, tq, d_value]
  HeadStrides grad_out_at;
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;
  HeadStrides dq_at, dk_at, dv_at;
  T* dbias = nullptr;  ///< dbias_size adjacent values, summed over the axes of stride 0
  ScoreStrides dbias_at;
  std::int64_t dbias_size = 0;
  /// Written if not null, row-major [batch, heads, tq, tk]: gradients of the masked scores, of the
  /// weights before and after dropout. The results keep their bits.
  T *dscores = nullptr, *dpattern = nullptr, *ddropped = nullptr;
};

inline constexpr std::int64_t kMaxHead = 256;  ///< of d and d_value

namespace simd {

/// The same bits at any number of threads. d and d_value up to kMaxHead.
void attention(const Attention<float>& a);
void attention(const Attention<double>& a);
void attention_backward(const Attention<float>& a, const AttentionGrads<float>& g);
void attention_backward(const Attention<double>& a, const AttentionGrads<double>& g);

}  // namespace simd
}  // namespace heed::autograd::kernels
