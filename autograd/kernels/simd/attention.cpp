// The forward of fused attention, compiled once per SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/simd/attention.cpp"
// foreach_target.h requires this order of includes.
// clang-format off
#include "autograd/kernels/simd/targets.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "autograd/kernels/simd/attention-inl.h"
#include "autograd/kernels/simd/attention.h"
#include "autograd/kernels/simd/gemv-inl.h"
#include <atomic>
#include <cmath>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template decltype(pack_rows<float>) pack_rows<float>;
template decltype(pack_rows<double>) pack_rows<double>;
template decltype(scale_panels<float>) scale_panels<float>;
template decltype(scale_panels<double>) scale_panels<double>;
template decltype(clear_hidden<float>) clear_hidden<float>;
template decltype(clear_hidden<double>) clear_hidden<double>;
template decltype(scale_scores<float>) scale_scores<float>;
template decltype(scale_scores<double>) scale_scores<double>;
template decltype(exp_row<float>) exp_row<float>;
template decltype(exp_row<double>) exp_row<double>;
template decltype(drop_row<float>) drop_row<float>;
template decltype(drop_row<double>) drop_row<double>;

// Writes the scores and the weights of a block of queries for a probe. `top` is the largest score
// of each row, and `total` is the denominator of its softmax. The values are computed in a separate
// pass, so that a probe does not change a bit of the output.
template <class T, class Sum>
HWY_NOINLINE void write_block(const Head<T>& h, const T* packed_keys, T* s, Index i0, Index rows,
                              const T* top, const Sum* total) {
  const Attention<T>& a = h.a;
  const Index end = a.raw_scores ? h.keys.end : h.causal_end(i0 + rows - 1);
  KeptRow memory;
  for (Index j0 = 0; j0 < a.tk; j0 += kKeys) {
    const Index columns = std::min(kKeys, a.tk - j0);
    const Index some = std::clamp<Index>(end - j0, 0, columns);
    const Index s_row = padded<T>(some);
    if (some > 0)
      times_transposed(s, s_row, h.q + i0 * a.q_at.row, a.q_at.row, rows, a.d,
                       packed_keys + j0 * a.d, some);
    for (Index r = 0; r < rows; ++r) {
      const KeyRange seen{j0, j0 + some};
      const KeyRange own = h.columns(i0 + r, seen);
      const Index n = own.end;
      const Index at = (h.index * a.tq + i0 + r) * a.tk + j0;
      T* row = s + r * s_row;
      write_row(offset_or_null(a.raw_scores, at), row, some, columns);
      for (Index j = 0; a.raw_scores && j < some; ++j) a.raw_scores[at + j] *= T(a.scale);
      if (a.raw_scores) clear_hidden(h, a.raw_scores + at, i0 + r, j0, some);
      finish_scores(h, row, i0 + r, j0, own, true);
      write_row(offset_or_null(a.scores, at), row, n, columns, kMinusInf<T>);
      exp_row(row, row, T(1), top[r] == kMinusInf<T> ? T(0) : top[r], own, s_row, -1);
      const T inverse = total[r] == 0 ? T(0) : T(1 / total[r]);
      for (Index j = 0; j < n; ++j) row[j] *= inverse;
      write_row(offset_or_null(a.pattern, at), row, n, columns);
      if (a.dropout > 0) {
        const std::uint8_t* keep = kept_in_row(h, memory, i0 + r, j0, n);
        drop_row(row, keep, dropout_scale(a), n);
      }
      write_row(offset_or_null(a.dropped, at), row, n, columns);
    }
  }
}

// Returns true if the head has so few queries that packing its keys and values would take longer
// than the products that use them. The keys and values are then read in place. This requires finite
// values if a query may not read all of them.
template <class T>
bool reads_in_place(const Head<T>& h) {
  const Attention<T>& a = h.a;
  if (!is_few_rows<T>(a.tq, h.keys.end, 1, 1) || !readable_in_place<T>(1, a.d_value) ||
      h.keys.begin > 0 || a.keep || a.raw_scores || a.scores || a.pattern || a.dropped)
    return false;
  const Full<T> d;
  auto found = hn::Zero(d);  // becomes NaN in a lane with a value that is not finite
  for (Index j = 0; h.hides() && j < h.keys.end; ++j)
    for (Index c = 0; c < a.d_value; c += Index(hn::Lanes(d)))
      found = hn::MulAdd(hn::LoadU(d, h.v + j * a.v_at.row + c), hn::Zero(d), found);
  return hn::AllTrue(d, hn::Eq(found, hn::Zero(d)));
}

// Computes s = q k^T for the queries [i0, i0 + rows) and the keys `seen`, which are read in place.
// The sums have the same bits as those of times_transposed().
template <class T>
HWY_INLINE void times_keys(const Head<T>& h, T* s, Index s_row, Index i0, Index rows,
                           KeyRange seen) {
  const Attention<T>& a = h.a;
  for (Index j = seen.begin; j < seen.end; j += kFewColumns)
    multiply_few_rows<T>(rows, std::min(kFewColumns, seen.end - j), a.d,
                         {h.q + i0 * a.q_at.row, a.q_at.row, 1}, h.k + j * a.k_at.row, a.k_at.row,
                         s + (j - seen.begin), s_row, 1, true, nullptr);
}

// Writes the outputs and the lse of the queries [i0, i0 + rows). `top` contains the largest score
// of each query, `total` the sum of exp(score - top) over its keys, and `acc` the sum of these
// exponentials times the values.
template <class T, class Sum>
void write_outputs(const Head<T>& h, Index i0, Index rows, const T* top, const Sum* total,
                   const Sum* acc) {
  const Index dv = h.a.d_value;
  const T kept = h.a.dropout > 0 ? dropout_scale(h.a) : T(1);
  for (Index r = 0; r < rows; ++r) {
    const Sum inverse = total[r] > 0 ? kept / total[r] : 0;  // 0 for a fully masked row
    T* out = h.out + (i0 + r) * h.a.out_at.row;
    for (Index c = 0; c < dv; ++c) out[c] = T(acc[r * dv + c] * inverse);
    const Sum log_total = std::log(total[r]);
    const double lse = double(top[r] + log_total);
    h.lse[i0 + r] = lse;
    h.lse_rest[i0 + r] = total[r] == 0 ? 0 : double(top[r]) - lse + double(log_total);
    if (total[r] != total[r])  // a score was NaN, so the output is NaN
      std::fill_n(out, dv, T(total[r]));
  }
}

// Computes the output of `rows` queries, starting at query i0. The queries are those of
// h.rows_together(), and sums over their keys have type Sum. If packed_keys is null, keys and
// values are read in place. `not_finite` is the result of pack_rows() for the values.
template <class T, class Sum>
HWY_NOINLINE void forward_block(const Head<T>& h, const T* packed_keys, const T* packed_values,
                                bool not_finite, Index i0, Index rows) {
  const Attention<T>& a = h.a;
  const Index dv = a.d_value;
  const T scale = h.scale();
  HWY_ALIGN T s[kQueries * kKeys];
  HWY_ALIGN Sum acc[kQueries * kMaxHead];
  KeptRow memory;
  T top[kQueries];
  Sum total[kQueries];
  std::fill_n(top, rows, kMinusInf<T>);
  std::fill_n(total, rows, Sum(0));
  std::fill_n(acc, rows * dv, Sum(0));
  bool first = true;
  const bool blocked = sums_blocks<T>() || h.is_long(i0);
  for (Index j0 = 0; j0 < h.keys.end; j0 += kKeys) {
    const KeyRange seen = h.tile(i0, rows, j0);
    if (seen.empty()) continue;  // all weights of this tile are 0
    const Index columns = seen.size(), s_row = padded<T>(columns);
    if (packed_keys)
      times_transposed(s, s_row, h.q + i0 * a.q_at.row, a.q_at.row, rows, a.d,
                       packed_keys + seen.begin * a.d, columns);
    else
      times_keys(h, s, s_row, i0, rows, seen);
    for (Index r = 0; r < rows; ++r) {
      const KeyRange own = h.columns(i0 + r, seen);
      const Index n = own.end;
      T* row = s + r * s_row;
      finish_scores(h, row, i0 + r, seen.begin, own, !h.plain);
      // Online softmax (Milakov and Gimelshein 2018): if a tile has a larger score than the earlier
      // tiles, the earlier sums are multiplied by exp(old maximum - new maximum).
      const T now = std::max(top[r], n > 0 ? max_row(row, n) * scale : top[r]);
      const T shift = now == kMinusInf<T> ? T(0) : now;
      const T shrink = first ? T(0) : std::exp(top[r] - shift);
      total[r] = total[r] * shrink +
                 Sum(exp_row(row, row, scale, shift, own, s_row, blocked ? seen.begin : -1));
      if (a.dropout > 0) {  // after total[r] is summed, because dropout does not change total[r]
        const std::uint8_t* keep = kept_in_row(h, memory, i0 + r, seen.begin, n);
        drop_row(row, keep, T(1), n);
      }
      if (!first && shrink != T(1))
        for (Index c = 0; c < dv; ++c) acc[r * dv + c] *= shrink;
      top[r] = now;
    }
    const Panels<T> values =
        packed_keys ? packed_rows(packed_values, {0, h.keys.end}, dv, seen.begin)
                    : Panels<T>{h.v + seen.begin * a.v_at.row, a.v_at.row, panel_width<T>()};
    add_product(acc, s, s_row, rows, dv, values, seen.begin, columns);
    if (not_finite)
      add_not_finite(h, acc, dv, s, i0, rows, seen, true, h.v + seen.begin * a.v_at.row, a.v_at.row,
                     dv, T(1));
    first = false;
  }
  write_outputs(h, i0, rows, top, total, acc);
  if (a.raw_scores || a.scores || a.pattern || a.dropped)
    write_block(h, packed_keys, s, i0, rows, top, total);
}

template <class T>
void forward(const Attention<T>& a) {
  const VisibleKeys visible(a);
  const Index heads = a.heads();
  const auto run = [&](Index index, auto over) HWY_ATTR {
    const Head<T> h(a, visible, index);
    const bool pack = !reads_in_place(h);
    const Scratch<T> keys(pack ? padded<T>(h.keys.end) * a.d : 0);
    const Scratch<T> values(pack ? h.keys.end * padded<T>(a.d_value) : 0);
    std::atomic<bool> not_finite = false;  // true if a value is not finite
    over(pack ? (h.keys.end + kKeys - 1) / kKeys : 0, [&](Index begin, Index end) HWY_ATTR {
      const KeyRange some{begin * kKeys, std::min(end * kKeys, h.keys.end)};
      pack_panels(keys.get() + some.begin * a.d, h.k + some.begin * a.k_at.row, 1, a.k_at.row, a.d,
                  some.size());
      if (pack_rows(values.get() + some.begin * padded<T>(a.d_value), h.v, a.v_at.row, a.d_value,
                    some, T(1)))
        not_finite = true;
    });
    over((a.tq + kQueries - 1) / kQueries, [&](Index begin, Index end) HWY_ATTR {
      end = std::min(end * kQueries, a.tq);
      for (Index i = begin * kQueries, rows; i < end; i += rows) {
        rows = h.rows_together(i, end);
        const auto block = h.is_long(i) ? forward_block<T, double> : forward_block<T, T>;
        block(h, pack ? keys.get() : nullptr, values.get(), not_finite, i, rows);
      }
    });
  };
  // If there are at least 8 heads, each thread computes whole heads. Otherwise the heads are
  // computed one after the other, and the blocks of keys and queries of a head are divided among
  // the threads.
  if (heads >= 8)
    return parallel_for(heads, 1, [&](Index begin, Index end) HWY_ATTR {
      for (Index i = begin; i < end; ++i) run(i, [](Index n, auto f) HWY_ATTR { f(0, n); });
    });
  for (Index i = 0; i < heads; ++i) run(i, [](Index n, auto f) { parallel_for(n, 1, f); });
}

void forward_float(const Attention<float>& a) { forward(a); }
void forward_double(const Attention<double>& a) { forward(a); }

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::autograd::kernels::simd {
namespace {
HWY_EXPORT(forward_float);
HWY_EXPORT(forward_double);
}  // namespace

void attention(const Attention<float>& a) { HWY_DYNAMIC_DISPATCH(forward_float)(a); }
void attention(const Attention<double>& a) { HWY_DYNAMIC_DISPATCH(forward_double)(a); }

}  // namespace heed::autograd::kernels::simd
#endif
