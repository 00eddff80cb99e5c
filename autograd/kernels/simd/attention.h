// Attention on raw memory without its T x T matrices: blocks of scores live in cache only (Dao et
// al. 2022; the backward recomputes them from the log-sum-exp). Blocks that causality, a window or
// a mask hides entirely are skipped (visible_keys.h), and keys behind the last readable one.
#pragma once

#include <array>
#include <cstdint>

namespace heed::autograd::kernels {

inline constexpr int kMaxLead = 6;  ///< leading axes, which together count the heads
using LeadAxes = std::array<std::int64_t, kMaxLead>;

/// Layout of [leading axes, rows, d]: strides in elements, the last axis adjacent.
struct HeadStrides {
  LeadAxes lead = {};
  std::int64_t row = 0;
};
/// Layout of something of [leading axes, tq, tk]; stride 0 along axes that it is broadcast over.
struct ScoreStrides {
  LeadAxes lead = {};
  std::int64_t row = 0, column = 0;
};

/// The parts of a call that do not depend on the scalar: its sizes, and which keys each query may
/// read.
struct AttentionShape {
  int lead_axes = 0;
  LeadAxes lead = {};  ///< their sizes
  std::int64_t tq = 0, tk = 0, d = 0, d_value = 0;
  std::int64_t first_query = 0;  ///< where query 0 stands among the keys; query i stands i further
  bool causal = false;           ///< no key after the query
  std::int64_t window = 0;       ///< if not 0: only keys less than this far from the query
  const bool* keep = nullptr;    ///< if not null: true = may attend
  ScoreStrides keep_at;

  std::int64_t heads() const {
    std::int64_t n = 1;
    for (int i = 0; i < lead_axes; ++i) n *= lead[std::size_t(i)];
    return n;
  }
};

/// dropout(softmax(q k^T scale + bias, masked)) v for every head. What no query may read is not
/// read as numbers.
template <class T>
struct Attention : AttentionShape {
  const T* q = nullptr;  ///< [leading axes, tq, d]
  const T* k = nullptr;  ///< [leading axes, tk, d]
  const T* v = nullptr;  ///< [leading axes, tk, d_value]
  T* out = nullptr;      ///< [leading axes, tq, d_value]
  HeadStrides q_at, k_at, v_at, out_at;
  T* lse = nullptr;  ///< [leading axes, tq]: log-sum-exp of each row of scores, -inf for no keys
  double scale = 1;

  // Each of these may be null, or 0.
  const T* bias = nullptr;  ///< added to the scaled scores
  ScoreStrides bias_at;
  double dropout = 0;  ///< probability; weight i of [leading axes, tq, tk] as DropoutMask says
  std::uint64_t dropout_key = 0;

  /// Written if not null, row-major [leading axes, tq, tk]: q k^T scale of all keys that some query
  /// may read (0 for the others), the masked scores, the weights before and after dropout. The
  /// results keep their bits.
  T *raw_scores = nullptr, *scores = nullptr, *pattern = nullptr, *dropped = nullptr;
};

/// Arguments that the backward adds: from grad_out it writes all of dq, dk, dv and, if not null,
/// dbias.
template <class T>
struct AttentionGrads {
  const T* grad_out = nullptr;  ///< [leading axes, tq, d_value]
  HeadStrides grad_out_at;
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;
  HeadStrides dq_at, dk_at, dv_at;
  T* dbias = nullptr;  ///< dbias_size adjacent values, summed over the axes of stride 0
  ScoreStrides dbias_at;
  std::int64_t dbias_size = 0;
  /// Written if not null, row-major [leading axes, tq, tk]: gradients of the masked scores, of the
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
