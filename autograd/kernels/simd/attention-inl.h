// What attention's forward and backward share, for one SIMD target: the pointers of a head, its
// keys and values packed for products, and what happens to one row of scores.
#if defined(HEED_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_INL_H_
#undef HEED_ATTENTION_INL_H_
#else
#define HEED_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <array>
#include <limits>

#include "autograd/base/parallel.h"
#include "autograd/kernels/simd/attention.h"
#include "autograd/kernels/simd/gemm-inl.h"
#include "autograd/kernels/simd/philox-inl.h"
#include "autograd/kernels/simd/scratch.h"
#include "autograd/kernels/simd/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kQueries = 48;    // rows of scores at a time
constexpr std::int64_t kKeys = kBlockK;  // columns of scores at a time: a block of k for P V

template <class T>
constexpr T kMinusInf = -std::numeric_limits<T>::infinity();

// Columns rounded up to whole panels: how rows of scores are spaced.
template <class T>
std::int64_t padded(std::int64_t n) {
  return panel_count<T>(n) * panel_width<T>();
}

// One head: the pointers of a task, and the keys that a query may read.
template <class T>
struct Head {
  const Attention<T>& a;
  const std::int64_t index, b, h;
  const T *q, *k, *v;
  T *out, *lse;
  std::int64_t keys;  // up to the last one that a query may read
  bool plain;         // scores are only scaled: softmax does that on the way

  Head(const Attention<T>& all, std::int64_t i)
      : a(all), index(i), b(i / all.heads), h(i % all.heads), read_(all.keep ? all.tk : 0) {
    q = a.q + b * a.q_at.batch + h * a.q_at.head;
    k = a.k + b * a.k_at.batch + h * a.k_at.head;
    v = a.v + b * a.v_at.batch + h * a.v_at.head;
    out = a.out + b * a.out_at.batch + h * a.out_at.head;
    lse = a.lse + index * a.tq;
    plain = !a.keep && !a.bias && a.scale > 0;  // a negative scale makes the largest the smallest
    keys = a.causal ? std::clamp<std::int64_t>(a.tq + a.causal_offset, 0, a.tk) : a.tk;
    if (a.keep) find_read();
  }
  // Keys before the first that causality hides from query i.
  std::int64_t visible(std::int64_t i) const {
    return a.causal ? std::clamp<std::int64_t>(i + 1 + a.causal_offset, 0, keys) : keys;
  }
  bool is_read(std::int64_t j) const { return !a.keep || read_.get()[j]; }
  // What is left to scale when a row of scores is finished.
  T scale() const { return plain ? T(a.scale) : T(1); }
  std::int64_t offset(const ScoreStrides& at) const { return b * at.batch + h * at.head; }

 private:
  Scratch<std::uint8_t> read_;  // of each key: whether any query may read it

  void find_read() {
    std::uint8_t* read = read_.get();
    std::fill_n(read, a.tk, std::uint8_t(0));
    const auto* keep = reinterpret_cast<const std::uint8_t*>(a.keep) + offset(a.keep_at);
    // Where all rows are one, the last query speaks for all: it sees the most.
    for (std::int64_t i = a.keep_at.row == 0 ? a.tq - 1 : 0; i < a.tq; ++i) {
      const std::uint8_t* row = keep + i * a.keep_at.row;
      const std::int64_t n = visible(i);
      if (a.keep_at.column == 1)
        for (std::int64_t j = 0; j < n; ++j) read[j] = std::uint8_t(read[j] | row[j]);
      else
        for (std::int64_t j = 0; j < n; ++j)
          read[j] = std::uint8_t(read[j] | row[j * a.keep_at.column]);
    }
    while (keys > 0 && !read[keys - 1]) --keys;
  }
};

// Rows j of x [keys, columns] in blocks of kKeys rows, each as panels. Unread rows become 0:
// 0 * NaN would be NaN.
template <class T>
HWY_NOINLINE void pack_rows(const Head<T>& h, T* out, const T* x, std::int64_t row,
                            std::int64_t columns) {
  const std::int64_t width = panel_width<T>();
  for (std::int64_t j0 = 0; j0 < h.keys; j0 += kKeys) {
    const std::int64_t rows = std::min(kKeys, h.keys - j0);
    T* block = out + j0 * padded<T>(columns);
    pack_panels(block, x + j0 * row, row, 1, rows, columns);
    for (std::int64_t j = 0; h.a.keep && j < rows; ++j)
      if (!h.is_read(j0 + j))
        for (std::int64_t c = 0; c < columns; c += width)
          std::fill_n(block + c * rows + j * width, width, T(0));
  }
}
template <class T>
HWY_INLINE Panels<T> packed_rows(const Head<T>& h, const T* packed, std::int64_t j0,
                                 std::int64_t columns) {
  return packed_panels(packed + j0 * padded<T>(columns), std::min(kKeys, h.keys - j0));
}

// x^T [columns, keys] as panels; a block of kKeys is made of whole panels. Unread keys become 0.
template <class T>
HWY_NOINLINE void pack_transposed(const Head<T>& h, T* out, const T* x, std::int64_t row,
                                  std::int64_t columns) {
  const std::int64_t width = panel_width<T>();
  pack_panels(out, x, 1, row, columns, h.keys);
  for (std::int64_t j = 0; h.a.keep && j < h.keys; ++j)
    if (!h.is_read(j))
      for (std::int64_t c = 0; c < columns; ++c)
        out[j / width * width * columns + c * width + j % width] = T(0);
}

// s [rows, columns] = x [rows, d] times packed^T from key j0 on: q k^T, unscaled, or dO v^T.
template <class T>
HWY_INLINE void times_transposed(T* s, std::int64_t s_row, const T* x, std::int64_t row,
                                 std::int64_t rows, std::int64_t d, const T* packed,
                                 std::int64_t j0, std::int64_t columns) {
  multiply_block<T>(rows, columns, d, {x, row, 1}, packed_panels(packed + j0 * d, d), s, s_row, 1,
                    true, nullptr);
}

// Row i of q k^T, n columns from j0 on, becomes scores: scaled, biased, -inf where masked.
template <class T>
HWY_NOINLINE void finish_scores(const Head<T>& h, T* HWY_RESTRICT s, std::int64_t i,
                                std::int64_t j0, std::int64_t n) {
  const Attention<T>& a = h.a;
  const T scale = T(a.scale);
  if (a.bias) {
    const std::int64_t step = a.bias_at.column;
    const T* HWY_RESTRICT bias = a.bias + h.offset(a.bias_at) + i * a.bias_at.row + j0 * step;
    if (step == 1)
      for (std::int64_t j = 0; j < n; ++j) s[j] = s[j] * scale + bias[j];
    else
      for (std::int64_t j = 0; j < n; ++j) s[j] = s[j] * scale + bias[j * step];
  } else {
    for (std::int64_t j = 0; j < n; ++j) s[j] *= scale;
  }
  if (a.keep) {
    const std::int64_t step = a.keep_at.column;
    const bool* HWY_RESTRICT keep = a.keep + h.offset(a.keep_at) + i * a.keep_at.row + j0 * step;
    if (step == 1)
      for (std::int64_t j = 0; j < n; ++j) s[j] = keep[j] ? s[j] : kMinusInf<T>;
    else
      for (std::int64_t j = 0; j < n; ++j) s[j] = keep[j * step] ? s[j] : kMinusInf<T>;
  }
}

// p[0..n) = exp(s * scale - shift), p[n..end) = 0; returns their sum. p may be s. The product is
// rounded before shift is taken away: a row of one key has weight 1, exactly.
template <class T>
HWY_NOINLINE T exp_row(T* p, const T* s, T scale, T shift, std::int64_t n, std::int64_t end) {
  const Full<T> d;
  const auto lanes = std::int64_t(hn::Lanes(d));
  auto total = hn::Zero(d);
  for (std::int64_t i = 0; i < end; i += lanes) {  // rows are padded to whole vectors
    const auto in = hn::FirstN(d, std::size_t(std::clamp<std::int64_t>(n - i, 0, lanes)));
    const auto scaled = hn::Mul(hn::Load(d, s + i), hn::Set(d, scale));
    const auto e = hn::IfThenElseZero(in, exp_near_zero(d, hn::Sub(scaled, hn::Set(d, shift))));
    hn::Store(e, d, p + i);
    total = hn::Add(total, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

template <class T>
HWY_NOINLINE T max_row(const T* s, std::int64_t n) {
  const Full<T> d;
  const auto lanes = std::int64_t(hn::Lanes(d));
  const auto lowest = hn::Set(d, kMinusInf<T>);
  auto top = lowest;
  for (std::int64_t i = 0; i < n; i += lanes) {
    const auto in = hn::FirstN(d, std::size_t(std::min(lanes, n - i)));
    top = hn::Max(top, hn::IfThenElse(in, hn::Load(d, s + i), lowest));
  }
  return largest_lane(d, top);
}

// What kept weights are divided by, inverted; with p = 1 none is kept.
template <class T>
T dropout_scale(const Attention<T>& a) {
  return a.dropout < 1 ? T(1 / (1 - a.dropout)) : T(0);
}

// Whether weights (i, j0) to (i, j0 + n - 1) survive dropout, as 0 or 1.
using KeptRow = std::array<std::uint8_t, kKeys + kKeepSlack>;
template <class T>
HWY_INLINE const std::uint8_t* kept_in_row(const Head<T>& h, KeptRow& memory, std::int64_t i,
                                           std::int64_t j0, std::int64_t n) {
  const DropoutMask mask(h.a.dropout_key, h.a.dropout);
  return keep_run(mask, std::uint64_t((h.index * h.a.tq + i) * h.a.tk + j0), n, memory.data());
}
// x[j] = keep[j] ? x[j] * scale : 0. It selects: a dropped NaN is gone.
template <class T>
HWY_NOINLINE void drop_row(T* HWY_RESTRICT x, const std::uint8_t* HWY_RESTRICT keep, T scale,
                           std::int64_t n) {
  for (std::int64_t j = 0; j < n; ++j) x[j] = keep[j] ? x[j] * scale : T(0);
}

// out[0..n) = p, out[n..columns) = rest, if wanted.
template <class T>
void write_row(T* out, const T* p, std::int64_t n, std::int64_t columns, T rest = T(0)) {
  if (!out) return;
  std::copy_n(p, n, out);
  std::fill(out + n, out + columns, rest);
}
template <class T>
T* moved(T* p, std::int64_t by) {
  return p ? p + by : p;
}

// attention.cpp compiles these for the backward, too.
extern template decltype(pack_rows<float>) pack_rows<float>;
extern template decltype(pack_rows<double>) pack_rows<double>;
extern template decltype(pack_transposed<float>) pack_transposed<float>;
extern template decltype(pack_transposed<double>) pack_transposed<double>;
extern template decltype(finish_scores<float>) finish_scores<float>;
extern template decltype(finish_scores<double>) finish_scores<double>;
extern template decltype(exp_row<float>) exp_row<float>;
extern template decltype(exp_row<double>) exp_row<double>;
extern template decltype(drop_row<float>) drop_row<float>;
extern template decltype(drop_row<double>) drop_row<double>;

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
