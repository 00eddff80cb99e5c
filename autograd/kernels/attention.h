// Attention on raw memory without its T x T matrices: blocks of scores live in cache only (Dao et
// al. 2022; the backward recomputes them from the log-sum-exp). Causal blocks beyond the diagonal
// are skipped.
#pragma once

#include <cstdint>

namespace heed::autograd::kernels {

/// Where [batch, heads, rows, d] lies: strides in elements, the last axis adjacent.
struct HeadStrides {
  std::int64_t batch = 0, head = 0, row = 0;
};

/// softmax(q k^T scale, masked) v for every batch and head.
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
  bool causal = false;                    ///< query i sees keys up to i + tk - tq
  const std::int64_t* lengths = nullptr;  ///< [batch]: keys from here on are padding, never read
};

/// What the backward adds: from grad_out it writes all of dq, dk and dv.
template <class T>
struct AttentionGrads {
  const T* grad_out = nullptr;  ///< [batch, heads, tq, d_value]
  HeadStrides grad_out_at;
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;
  HeadStrides dq_at, dk_at, dv_at;
};

/// The same bits at any number of threads. d and d_value up to kMaxHead.
inline constexpr std::int64_t kMaxHead = 256;
void attention(const Attention<float>& a);
void attention(const Attention<double>& a);
void attention_backward(const Attention<float>& a, const AttentionGrads<float>& g);
void attention_backward(const Attention<double>& a, const AttentionGrads<double>& g);

}  // namespace heed::autograd::kernels
