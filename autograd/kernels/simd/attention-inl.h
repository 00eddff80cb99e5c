// Code that the forward and the backward of attention share, compiled for one SIMD target: the
// pointers of a head, the packing of its keys and values, and the operations on one row of scores.
#if defined(HEED_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_INL_H_
#undef HEED_ATTENTION_INL_H_
#else
#define HEED_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cmath>
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

constexpr Index kQueries = VisibleKeys::kQueries;
constexpr Index kKeys = VisibleKeys::kKeys;
static_assert(kKeys <= kBlockK);  // the product of weights and values sums over a block of keys

template <class T>
constexpr T kMinusInf = -std::numeric_limits<T>::infinity();

// Returns n rounded up to a multiple of the panel width. This is the stride between rows of n
// scores.
template <class T>
Index padded(Index n) {
  return panel_count<T>(n) * panel_width<T>();
}

// Returns the block of kKeys keys that contains key j.
inline KeyRange block_of(Index j) { return {j - j % kKeys, j - j % kKeys + kKeys}; }

// One head of an attention call: its pointers, and the keys that its queries may read.
template <class T>
struct Head {
  const Attention<T>& a;
  const VisibleKeys& visible;
  const Index index;    // number of the head, in row-major order of the leading axes
  LeadAxes place = {};  // index of the head along each leading axis
  const T *q, *k, *v;
  T* out;
  double *lse, *lse_rest;
  Index mask;     // index of the keep-mask in `visible`
  KeyRange keys;  // contains every key that any query may read, and all keys for raw_scores
  bool plain;     // true if scores need only scaling; exp_row() then scales them

  Head(const Attention<T>& all, const VisibleKeys& some, Index i)
      : a(all), visible(some), index(i) {
    for (std::size_t axis = std::size_t(a.lead_axes); axis-- > 1; i /= a.lead[axis])
      place[axis] = i % a.lead[axis];
    place[0] = i;
    q = a.q + offset(a.q_at.lead), k = a.k + offset(a.k_at.lead), v = a.v + offset(a.v_at.lead);
    out = a.out + offset(a.out_at.lead);
    lse = a.lse + index * a.tq, lse_rest = lse + a.heads() * a.tq;
    mask = a.keep ? visible.mask_of(place) : 0;
    keys = a.raw_scores ? KeyRange{0, a.tk} : visible.all(mask);
    // `plain` requires scale > 0, because otherwise the largest q k^T is not the largest score.
    plain = !a.keep && !a.bias && a.scale > 0;
  }
  // Returns the offset of this head in an array with these strides along the leading axes.
  Index offset(const LeadAxes& strides) const {
    Index sum = 0;
    for (std::size_t axis = 0; axis < kMaxLead; ++axis) sum += place[axis] * strides[axis];
    return sum;
  }
  // Returns true if query i may read key j. A bias of -inf is a mask, too.
  bool may_read(Index i, Index j) const {
    const auto at = [&](const auto* x, const ScoreStrides& to) {
      return x[offset(to.lead) + i * to.row + j * to.column];
    };
    const KeyRange row = visible.row(i);
    return row.begin <= j && j < row.end && (!a.keep || at(a.keep, a.keep_at)) &&
           (!a.bias || at(a.bias, a.bias_at) != kMinusInf<T>);
  }
  // Returns false only if every query may read all keys before keys.end.
  bool hides() const {
    return a.keep || a.bias || visible.row(0).end < keys.end || visible.row(a.tq - 1).begin > 0;
  }
  // Returns the end of the keys that causality allows query i to read. It is at most keys.end.
  Index causal_end(Index i) const { return std::min(visible.causal_end(i), keys.end); }
  // Returns the keys for which the tile of scores at (i0, j0) is computed. The range starts at the
  // first key of a panel. It contains all keys of the tile that any of the `rows` queries may read.
  KeyRange tile(Index i0, Index rows, Index j0) const {
    KeyRange seen = visible.tile(mask, i0, rows, j0) & keys;
    if (!seen.empty()) seen.begin -= seen.begin % panel_width<T>();
    return seen;
  }
  // Returns the keys in `seen` that causality and the window allow query i to read, as column
  // indices relative to seen.begin.
  KeyRange columns(Index i, KeyRange seen) const {
    const KeyRange row = visible.row(i);
    const Index end = std::clamp<Index>(row.end - seen.begin, 0, seen.size());
    return {std::clamp<Index>(row.begin - seen.begin, 0, end), end};
  }
  // Returns true if query i may read more than kShortRow keys, which are then summed in blocks. The
  // keep-mask has no effect on this.
  bool is_long(Index i) const { return sizeof(T) == 4 && visible.row(i).size() > kShortRow; }
  // Returns the number of queries from i0 on that are computed together. They are in one tile, end
  // before `end`, and is_long() is equal for all of them.
  Index rows_together(Index i0, Index end) const {
    end = std::min(end, i0 - i0 % kQueries + kQueries);
    Index i = i0 + 1;
    while (i < end && is_long(i) == is_long(i0)) ++i;
    return i - i0;
  }
  // Returns the factor that exp_row() must apply to the scores.
  T scale() const { return plain ? T(a.scale) : T(1); }
};

// Multiplies x [rows, columns], which pack_panels() packed, by `scale`. Values that are then not
// finite are replaced by 0, because 0 * NaN and 0 * inf are NaN. Returns true if there was such a
// value. The terms of the sums in which it is read must then be added by add_not_finite().
template <class T>
HWY_NOINLINE bool scale_panels(T* packed, Index rows, Index columns, T scale) {
  const Full<T> d;
  const Index width = panel_width<T>(), lanes = width / 2;
  const auto zero = hn::Zero(d);
  auto found = zero;  // becomes NaN in a lane with a value that is not finite
  const auto for_each_vector = [&](auto f) HWY_ATTR {
    for (Index c = 0; c < columns; c += width) {
      const bool both = columns - c > lanes;  // otherwise the second vector of the panel is unused
      for (T *at = packed + c * rows, *end = at + rows * width; at < end; at += width) {
        hn::Store(f(hn::Load(d, at)), d, at);
        if (both) hn::Store(f(hn::Load(d, at + lanes)), d, at + lanes);
      }
    }
  };
  for_each_vector([&](auto x) HWY_ATTR {
    const auto scaled = hn::Mul(x, hn::Set(d, scale));
    found = hn::MulAdd(scaled, zero, found);
    return scaled;
  });
  if (hn::AllTrue(d, hn::Eq(found, zero))) return false;
  for_each_vector([&](auto x)
                      HWY_ATTR { return hn::IfThenElseZero(hn::Eq(hn::Mul(x, zero), zero), x); });
  return true;
}

// Packs the rows `keys` of x [tk, columns] into panels. Each block of kKeys rows is packed
// separately. Scales the values and returns a flag like scale_panels().
template <class T>
HWY_NOINLINE bool pack_rows(T* out, const T* x, Index row, Index columns, KeyRange keys, T scale) {
  bool found = false;
  for (Index j0 = keys.begin, rows; j0 < keys.end; j0 += rows) {
    rows = (block_of(j0) & keys).size();
    pack_panels(out, x + j0 * row, row, 1, rows, columns);
    found |= scale_panels(out, rows, columns, scale);
    out += rows * padded<T>(columns);
  }
  return found;
}
// Returns the panels that pack_rows() wrote for `keys`, from row j to the end of the block that
// contains j.
template <class T>
HWY_INLINE Panels<T> packed_rows(const T* packed, KeyRange keys, Index columns, Index j) {
  const KeyRange block = block_of(j) & keys;
  Panels<T> panels =
      packed_panels(packed + (block.begin - keys.begin) * padded<T>(columns), block.size());
  panels.b += (j - block.begin) * panels.row;
  return panels;
}

// Computes s [rows, columns] = x [rows, d] y^T, where `packed` contains the panels of y^T and
// starts at the first key of a panel. The result is q k^T without the scale, or in the backward
// grad_out v^T.
template <class T>
HWY_INLINE void times_transposed(T* s, Index s_row, const T* x, Index row, Index rows, Index d,
                                 const T* packed, Index columns) {
  multiply_block<T>(rows, columns, d, {x, row, 1}, packed_panels(packed, d), s, s_row, 1, true,
                    nullptr);
}

// Adds s [rows, keys] times the panels of a block of keys to sums [rows, n]. If the sums are
// float64 and s is float32, blocks of kTogether keys are summed in float32. Key 0 of the panels is
// key j0.
template <class T, class Sum>
HWY_NOINLINE void add_product(Sum* sums, const T* s, Index s_row, Index rows, Index n,
                              Panels<T> panels, Index j0, Index keys) {
  if constexpr (sizeof(Sum) == sizeof(T)) {
    multiply_block<T>(rows, n, keys, {s, s_row, 1}, panels, sums, n, 1, false, nullptr);
  } else {
    constexpr Index kTogether = 32;
    HWY_ALIGN T part[kQueries * kMaxHead];
    for (Index j = 0, some; j < keys; j += some, panels.b += some * panels.row) {
      some = std::min(kTogether - (j0 + j) % kTogether, keys - j);
      multiply_block<T>(rows, n, some, {s + j, s_row, 1}, panels, part, n, 1, true, nullptr);
      for (Index i = 0; i < rows * n; ++i) sums[i] += Sum(part[i]);
    }
  }
}

// Adds the terms that a product of a tile lacks because scale_panels() replaced values of x, and
// leaves out the terms of keys that a query may not read. s has the weights, or the gradients of
// the scores, of the queries i0, ..., i0 + rows - 1 for the keys `seen`. Row a of x, of n values,
// belongs to key seen.begin + a if `of_keys` is true: sums [rows, n] += s x scale. Otherwise, it
// belongs to query i0 + a: sums [keys, n] += s^T x scale.
template <class T, class Sum>
HWY_NOINLINE void add_not_finite(const Head<T>& h, Sum* sums, Index sums_row, const T* s, Index i0,
                                 Index rows, KeyRange seen, bool of_keys, const T* x, Index x_row,
                                 Index n, T scale) {
  const auto is_finite = [scale](T value) { return std::isfinite(value * scale); };
  const Index s_row = padded<T>(seen.size());
  for (Index a = 0; a < (of_keys ? seen.size() : rows); ++a, x += x_row) {
    if (std::all_of(x, x + n, is_finite)) continue;
    for (Index b = 0; b < (of_keys ? rows : seen.size()); ++b) {
      const Index r = of_keys ? b : a, j = of_keys ? a : b;
      if (!h.may_read(i0 + r, seen.begin + j)) continue;
      Sum* sum = sums + b * sums_row;
      for (Index c = 0; c < n; ++c)
        sum[c] = is_finite(x[c]) ? sum[c] : sum[c] + Sum(s[r * s_row + j] * (x[c] * scale));
    }
  }
}

// Replaces values of row i that are not finite by 0 in the columns of keys that the query may not
// read. The row has n columns and starts at key j0.
template <class T>
HWY_NOINLINE void clear_hidden(const Head<T>& h, T* row, Index i, Index j0, Index n) {
  for (Index j = 0; j < n; ++j)
    if (!std::isfinite(row[j]) && !h.may_read(i, j0 + j)) row[j] = T(0);
}

// Converts n columns of row i of q k^T, starting at key j0, to scores in place: multiplies by the
// scale, adds the bias, and writes -inf where the keep-mask is false.
template <class T>
HWY_NOINLINE void scale_scores(const Head<T>& h, T* HWY_RESTRICT s, Index i, Index j0, Index n) {
  const Attention<T>& a = h.a;
  const T scale = T(a.scale);
  if (a.bias) {
    const Index step = a.bias_at.column;
    // A bias of -inf hides the key, whatever its score is.
    const auto biased = [](T x, T b) { return b == kMinusInf<T> ? b : x + b; };
    const T* HWY_RESTRICT bias = a.bias + h.offset(a.bias_at.lead) + i * a.bias_at.row + j0 * step;
    if (step == 1)
      for (Index j = 0; j < n; ++j) s[j] = biased(s[j] * scale, bias[j]);
    else
      for (Index j = 0; j < n; ++j) s[j] = biased(s[j] * scale, bias[j * step]);
  } else {
    for (Index j = 0; j < n; ++j) s[j] *= scale;
  }
  if (a.keep) {
    const Index step = a.keep_at.column;
    const bool* HWY_RESTRICT keep =
        a.keep + h.offset(a.keep_at.lead) + i * a.keep_at.row + j0 * step;
    if (step == 1)
      for (Index j = 0; j < n; ++j) s[j] = keep[j] ? s[j] : kMinusInf<T>;
    else
      for (Index j = 0; j < n; ++j) s[j] = keep[j * step] ? s[j] : kMinusInf<T>;
  }
}

// Finishes row i of the scores, starting at key j0: calls scale_scores() if `scale` is true, and
// writes -inf to the columns before own.begin, which the window hides.
template <class T>
HWY_INLINE void finish_scores(const Head<T>& h, T* s, Index i, Index j0, KeyRange own, bool scale) {
  if (scale) scale_scores(h, s, i, j0, own.end);
  std::fill_n(s, own.begin, kMinusInf<T>);
}

// Returns true if all sums of exp_row() are computed in blocks. This is so for float64, and on
// targets with one lane, where the rounding errors would add up.
template <class T>
constexpr bool sums_blocks() {
  return sizeof(T) == 8 || hn::MaxLanes(Full<T>()) == 1;
}
// Computes p = exp(s * scale - shift) in the columns `own` and p = 0 in the other columns below
// `end`, and returns the sum of p. If `block_from` is not negative, the sum is computed in blocks,
// and `block_from` is the key at which the row starts. In the columns before own.begin, s must be
// -inf. p may be the same array as s. The product s * scale is rounded before the subtraction, so
// that the weight of a single key is exactly 1.
template <class T>
HWY_NOINLINE double exp_row(T* p, const T* s, T scale, T shift, KeyRange own, Index end,
                            Index block_from) {
  const Full<T> d;
  const auto lanes = Index(hn::Lanes(d));
  auto block = hn::Zero(d);
  double total = 0;
  Index i = 0;
  for (; i + lanes <= own.begin; i += lanes) hn::Store(hn::Zero(d), d, p + i);
  // The last load may read beyond own.end. This is safe, because rows are padded to whole vectors.
  for (; i < own.end; i += lanes) {
    const auto in = hn::FirstN(d, std::size_t(std::min(lanes, own.end - i)));
    const auto scaled = hn::Mul(hn::Load(d, s + i), hn::Set(d, scale));
    const auto e = hn::IfThenElseZero(in, exp_near_zero(d, hn::Sub(scaled, hn::Set(d, shift))));
    hn::Store(e, d, p + i);
    block = hn::Add(block, e);
    if (block_from >= 0 && (block_from + i) / lanes % kBlockVectors == kBlockVectors - 1) {
      total += double(hn::GetLane(hn::SumOfLanes(d, block)));
      block = hn::Zero(d);
    }
  }
  for (; i < end; i += lanes) hn::Store(hn::Zero(d), d, p + i);
  return total + double(hn::GetLane(hn::SumOfLanes(d, block)));
}

// Returns the largest of n scores, or -inf if n is 0.
template <class T>
HWY_NOINLINE T max_row(const T* s, Index n) {
  const Full<T> d;
  const auto lanes = Index(hn::Lanes(d));
  const auto lowest = hn::Set(d, kMinusInf<T>);
  auto top = lowest;
  for (Index i = 0; i < n; i += lanes) {
    const auto in = hn::FirstN(d, std::size_t(std::min(lanes, n - i)));
    top = hn::Max(top, hn::IfThenElse(in, hn::Load(d, s + i), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, top));
}

// Returns the factor of the weights that dropout keeps, which is 1 / (1 - dropout). If dropout is
// 1, no weight is kept, and the factor is 0.
template <class T>
T dropout_scale(const Attention<T>& a) {
  return a.dropout < 1 ? T(1 / (1 - a.dropout)) : T(0);
}

// Memory for the dropout flags of one row of a tile. It has room for whole vectors, because
// drop_row() reads whole vectors. Flags after the end of the row have no effect.
using KeptRow = std::array<std::uint8_t, kKeys + kKeepSlack>;
// Returns n flags, which are stored in `memory`. Flag j is 1 if dropout keeps the weight of query i
// and key j0 + j, and otherwise 0.
template <class T>
HWY_INLINE const std::uint8_t* kept_in_row(const Head<T>& h, KeptRow& memory, std::int64_t i,
                                           Index j0, Index n) {
  const DropoutMask mask(h.a.dropout_key, h.a.dropout);
  return keep_run(mask, std::uint64_t((h.index * h.a.tq + i) * h.a.tk + j0), n, memory.data());
}
// Computes x[j] = keep[j] ? x[j] * scale : 0 for n columns. The values between x[n] and the end of
// the last vector become arbitrary. A dropped NaN becomes 0, because 0 is selected and not computed
// by multiplication.
template <class T>
HWY_NOINLINE void drop_row(T* HWY_RESTRICT x, const std::uint8_t* HWY_RESTRICT keep, T scale,
                           Index n) {
  if constexpr (sizeof(T) == 4) {
    const Full<T> d;
    const hn::RebindToUnsigned<Full<T>> du;
    const hn::Rebind<std::uint8_t, Full<T>> d8;
    const auto lanes = Index(hn::Lanes(d));
    for (Index j = 0; j < n; j += lanes) {
      const auto kept = hn::Ne(hn::PromoteTo(du, hn::LoadU(d8, keep + j)), hn::Zero(du));
      const auto scaled = hn::Mul(hn::Load(d, x + j), hn::Set(d, scale));
      hn::Store(hn::IfThenElseZero(hn::RebindMask(d, kept), scaled), d, x + j);
    }
  } else {
    for (Index j = 0; j < n; ++j) x[j] = keep[j] ? x[j] * scale : T(0);
  }
}

// Copies n values from p to `out` and fills out[n], ..., out[columns - 1] with `rest`. Does nothing
// if `out` is null.
template <class T>
void write_row(T* out, const T* p, Index n, Index columns, T rest = T(0)) {
  if (!out) return;
  std::copy_n(p, n, out);
  std::fill(out + n, out + columns, rest);
}
// Returns p + by, or null if p is null.
template <class T>
T* offset_or_null(T* p, Index by) {
  return p ? p + by : p;
}

// attention.cpp compiles these templates. The backward calls them, but does not compile them again.
extern template decltype(pack_rows<float>) pack_rows<float>;
extern template decltype(pack_rows<double>) pack_rows<double>;
extern template decltype(scale_panels<float>) scale_panels<float>;
extern template decltype(scale_panels<double>) scale_panels<double>;
extern template decltype(clear_hidden<float>) clear_hidden<float>;
extern template decltype(clear_hidden<double>) clear_hidden<double>;
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
