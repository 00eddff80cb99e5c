// Parts that attention's forward and backward share, for one SIMD target: the pointers of a head,
// its keys and values packed for products, and what happens to one row of scores.
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
#include "autograd/kernels/simd/visible_keys.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kQueries = VisibleKeys::kQueries;
constexpr std::int64_t kKeys = VisibleKeys::kKeys;
static_assert(kKeys <= kBlockK);  // they are the k of P V

template <class T>
constexpr T kMinusInf = -std::numeric_limits<T>::infinity();

// Columns rounded up to whole panels: how rows of scores are spaced.
template <class T>
std::int64_t padded(std::int64_t n) {
  return panel_count<T>(n) * panel_width<T>();
}

// The block of key j.
inline KeyRange block_of(std::int64_t j) { return {j - j % kKeys, j - j % kKeys + kKeys}; }

// One head: the pointers of a task, and the keys that a query may read.
template <class T>
struct Head {
  const Attention<T>& a;
  const VisibleKeys& visible;
  const std::int64_t index;
  LeadAxes place = {};  // its index along each leading axis
  const T *q, *k, *v;
  T *out, *lse;
  std::int64_t mask;
  KeyRange keys;  // from the first to the last one that a query may read
  bool plain;     // scores are only scaled: softmax does that on the way

  Head(const Attention<T>& all, const VisibleKeys& some, std::int64_t i)
      : a(all), visible(some), index(i) {
    for (std::size_t axis = std::size_t(a.lead_axes); axis-- > 1; i /= a.lead[axis])
      place[axis] = i % a.lead[axis];
    place[0] = i;
    q = a.q + offset(a.q_at.lead), k = a.k + offset(a.k_at.lead), v = a.v + offset(a.v_at.lead);
    out = a.out + offset(a.out_at.lead);
    lse = a.lse + index * a.tq;
    mask = a.keep ? visible.mask_of(place) : 0, keys = visible.all(mask),
    read_ = visible.read(mask);
    plain = !a.keep && !a.bias && a.scale > 0;  // a negative scale makes the largest the smallest
  }
  std::int64_t offset(const LeadAxes& strides) const {
    std::int64_t sum = 0;
    for (std::size_t axis = 0; axis < kMaxLead; ++axis) sum += place[axis] * strides[axis];
    return sum;
  }
  bool is_read(std::int64_t j) const { return j >= keys.begin && (!read_ || read_[j]); }
  bool all_are_read() const { return !read_ && keys.begin == 0; }
  // Keys before the first that causality hides from query i.
  std::int64_t causal_end(std::int64_t i) const {
    return std::min(visible.causal_end(i), keys.end);
  }
  // What the tile of scores at (i0, j0) is computed of, from a panel's first key on: between two
  // such ranges, and beyond, no query of the tile may read a key.
  KeyRange tile(std::int64_t i0, std::int64_t rows, std::int64_t j0) const {
    KeyRange seen = visible.tile(mask, i0, rows, j0) & keys;
    if (!seen.empty()) seen.begin -= seen.begin % panel_width<T>();
    return seen;
  }
  // Which of the keys `seen` causality and window leave to query i, counted from the first seen.
  KeyRange columns(std::int64_t i, KeyRange seen) const {
    const KeyRange row = visible.row(i);
    const std::int64_t end = std::clamp<std::int64_t>(row.end - seen.begin, 0, seen.size());
    return {std::clamp<std::int64_t>(row.begin - seen.begin, 0, end), end};
  }
  // The scale that is still to be applied when a row of scores is finished.
  T scale() const { return plain ? T(a.scale) : T(1); }

 private:
  const std::uint8_t* read_;
};

// Rows `keys` of x [tk, columns] as panels, what lies in each block of kKeys by itself. Unread rows
// become 0: 0 * NaN would be NaN.
template <class T>
HWY_NOINLINE void pack_rows(const Head<T>& h, T* out, const T* x, std::int64_t row,
                            std::int64_t columns, KeyRange keys) {
  const std::int64_t width = panel_width<T>();
  for (std::int64_t j0 = keys.begin, rows; j0 < keys.end; j0 += rows) {
    rows = (block_of(j0) & keys).size();
    pack_panels(out, x + j0 * row, row, 1, rows, columns);
    for (std::int64_t j = 0; !h.all_are_read() && j < rows; ++j)
      if (!h.is_read(j0 + j))
        for (std::int64_t c = 0; c < columns; c += width)
          std::fill_n(out + c * rows + j * width, width, T(0));
    out += rows * padded<T>(columns);
  }
}
// What pack_rows made of `keys`, from row j to the end of its block.
template <class T>
HWY_INLINE Panels<T> packed_rows(const T* packed, KeyRange keys, std::int64_t columns,
                                 std::int64_t j) {
  const KeyRange block = block_of(j) & keys;
  Panels<T> panels =
      packed_panels(packed + (block.begin - keys.begin) * padded<T>(columns), block.size());
  panels.b += (j - block.begin) * panels.row;
  return panels;
}

// x^T [columns, keys] as panels. Unread keys become 0.
template <class T>
HWY_NOINLINE void pack_transposed(const Head<T>& h, T* out, const T* x, std::int64_t row,
                                  std::int64_t columns, KeyRange keys) {
  const std::int64_t width = panel_width<T>();
  pack_panels(out, x + keys.begin * row, 1, row, columns, keys.size());
  for (std::int64_t j = 0; !h.all_are_read() && j < keys.size(); ++j)
    if (!h.is_read(keys.begin + j))
      for (std::int64_t c = 0; c < columns; ++c)
        out[j / width * width * columns + c * width + j % width] = T(0);
}

// s [rows, columns] = x [rows, d] times what pack_transposed made of keys from a panel's first one
// on: q k^T, unscaled, or dO v^T.
template <class T>
HWY_INLINE void times_transposed(T* s, std::int64_t s_row, const T* x, std::int64_t row,
                                 std::int64_t rows, std::int64_t d, const T* packed,
                                 std::int64_t columns) {
  multiply_block<T>(rows, columns, d, {x, row, 1}, packed_panels(packed, d), s, s_row, 1, true,
                    nullptr);
}

// Row i of q k^T, n columns from j0 on, becomes scores: scaled, biased, -inf where masked.
template <class T>
HWY_NOINLINE void scale_scores(const Head<T>& h, T* HWY_RESTRICT s, std::int64_t i, std::int64_t j0,
                               std::int64_t n) {
  const Attention<T>& a = h.a;
  const T scale = T(a.scale);
  if (a.bias) {
    const std::int64_t step = a.bias_at.column;
    const T* HWY_RESTRICT bias = a.bias + h.offset(a.bias_at.lead) + i * a.bias_at.row + j0 * step;
    if (step == 1)
      for (std::int64_t j = 0; j < n; ++j) s[j] = s[j] * scale + bias[j];
    else
      for (std::int64_t j = 0; j < n; ++j) s[j] = s[j] * scale + bias[j * step];
  } else {
    for (std::int64_t j = 0; j < n; ++j) s[j] *= scale;
  }
  if (a.keep) {
    const std::int64_t step = a.keep_at.column;
    const bool* HWY_RESTRICT keep =
        a.keep + h.offset(a.keep_at.lead) + i * a.keep_at.row + j0 * step;
    if (step == 1)
      for (std::int64_t j = 0; j < n; ++j) s[j] = keep[j] ? s[j] : kMinusInf<T>;
    else
      for (std::int64_t j = 0; j < n; ++j) s[j] = keep[j * step] ? s[j] : kMinusInf<T>;
  }
}

// Row i of the scores from key j0 on, unscaled if `scale` is left to exp_row. -inf hides what the
// window does.
template <class T>
HWY_INLINE void finish_scores(const Head<T>& h, T* s, std::int64_t i, std::int64_t j0, KeyRange own,
                              bool scale) {
  if (scale) scale_scores(h, s, i, j0, own.end);
  std::fill_n(s, own.begin, kMinusInf<T>);
}

// p = exp(s * scale - shift) in the columns `own`, where s is -inf before them, and 0 in the others
// up to `end`; returns their sum. p may be s. The product is rounded before shift is taken away: a
// row of one key has weight 1, exactly.
template <class T>
HWY_NOINLINE T exp_row(T* p, const T* s, T scale, T shift, KeyRange own, std::int64_t end) {
  const Full<T> d;
  const auto lanes = std::int64_t(hn::Lanes(d));
  auto total = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= own.begin; i += lanes) hn::Store(hn::Zero(d), d, p + i);
  for (; i < own.end; i += lanes) {  // rows are padded to whole vectors
    const auto in = hn::FirstN(d, std::size_t(std::min(lanes, own.end - i)));
    const auto scaled = hn::Mul(hn::Load(d, s + i), hn::Set(d, scale));
    const auto e = hn::IfThenElseZero(in, exp_near_zero(d, hn::Sub(scaled, hn::Set(d, shift))));
    hn::Store(e, d, p + i);
    total = hn::Add(total, e);
  }
  for (; i < end; i += lanes) hn::Store(hn::Zero(d), d, p + i);
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
  return hn::GetLane(hn::MaxOfLanes(d, top));
}

// The factor of kept weights, 1 / (1 - p); with p = 1 none is kept.
template <class T>
T dropout_scale(const Attention<T>& a) {
  return a.dropout < 1 ? T(1 / (1 - a.dropout)) : T(0);
}

// Whether weights (i, j0) to (i, j0 + n - 1) survive dropout, as 0 or 1. drop_row reads whole
// vectors of them, and what lies behind decides nothing.
using KeptRow = std::array<std::uint8_t, kKeys + kKeepSlack>;
template <class T>
HWY_INLINE const std::uint8_t* kept_in_row(const Head<T>& h, KeptRow& memory, std::int64_t i,
                                           std::int64_t j0, std::int64_t n) {
  const DropoutMask mask(h.a.dropout_key, h.a.dropout);
  return keep_run(mask, std::uint64_t((h.index * h.a.tq + i) * h.a.tk + j0), n, memory.data());
}
// x[j] = keep[j] ? x[j] * scale : 0 for n columns, and anything for what pads them to a vector. It
// selects: a dropped NaN is gone.
template <class T>
HWY_NOINLINE void drop_row(T* HWY_RESTRICT x, const std::uint8_t* HWY_RESTRICT keep, T scale,
                           std::int64_t n) {
  if constexpr (sizeof(T) == 4) {
    const Full<T> d;
    const hn::RebindToUnsigned<Full<T>> du;
    const hn::Rebind<std::uint8_t, Full<T>> d8;
    const auto lanes = std::int64_t(hn::Lanes(d));
    for (std::int64_t j = 0; j < n; j += lanes) {
      const auto kept = hn::Ne(hn::PromoteTo(du, hn::LoadU(d8, keep + j)), hn::Zero(du));
      const auto scaled = hn::Mul(hn::Load(d, x + j), hn::Set(d, scale));
      hn::Store(hn::IfThenElseZero(hn::RebindMask(d, kept), scaled), d, x + j);
    }
  } else {
    for (std::int64_t j = 0; j < n; ++j) x[j] = keep[j] ? x[j] * scale : T(0);
  }
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
extern template decltype(scale_scores<float>) scale_scores<float>;
extern template decltype(scale_scores<double>) scale_scores<double>;
extern template decltype(exp_row<float>) exp_row<float>;
extern template decltype(exp_row<double>) exp_row<double>;
extern template decltype(drop_row<float>) drop_row<float>;
extern template decltype(drop_row<double>) drop_row<double>;

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
