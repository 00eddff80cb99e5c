// The backward of fused attention, compiled once per SIMD target. S are the scores, P are the
// weights before dropout, D is the dropout function, O is the output, and dX is the gradient of X.
// With delta_i = dO_i . O_i = sum_j P_ij dP_ij:
//   dV = D(P)^T dO   dP = D(dO V^T)   dS = P (dP - delta)   dQ = dS K scale   dK = dS^T Q scale
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/simd/attention_backward.cpp"
// foreach_target.h requires this order of includes.
// clang-format off
#include "autograd/kernels/simd/targets.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "autograd/kernels/simd/attention-inl.h"
#include "autograd/kernels/simd/attention.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Division of the work into tasks, which depends on the shape only.
//
// A chunk consists of one or more blocks of queries. Different chunks of one head may run in
// parallel. Each chunk therefore has its own sums for dk and dv, and these sums are added
// afterwards in a fixed order. Heads that share a bias form a group. One task computes one chunk
// for all heads of a group, one head after the other.
template <class T>
struct Tasks {
  static constexpr Index kTasks = 8, kMinBlocks = 2;
  const Attention<T>& a;
  const AttentionGrads<T>& g;
  const VisibleKeys& visible;
  Index members = 1;           // number of heads per group
  Index groups, rows, chunks;  // numbers of groups, queries per chunk, chunks per head

  Tasks(const Attention<T>& all, const AttentionGrads<T>& grads, const VisibleKeys& some)
      : a(all), g(grads), visible(some) {
    for (std::size_t axis = 0; axis < std::size_t(a.lead_axes); ++axis)
      if (is_shared(axis)) members *= a.lead[axis];
    groups = a.heads() / members;
    const Index wanted = (kTasks + groups - 1) / groups;
    const Index blocks = (a.tq + kQueries - 1) / kQueries;
    rows = std::max(kMinBlocks, (blocks + wanted - 1) / wanted) * kQueries;
    chunks = (a.tq + rows - 1) / rows;
  }
  bool is_shared(std::size_t axis) const { return g.dbias && g.dbias_at.lead[axis] == 0; }
  // Returns the index of head i of a group.
  Index head(Index group, Index i) const {
    Index index = 0, step = 1;
    for (std::size_t axis = std::size_t(a.lead_axes); axis-- > 0; step *= a.lead[axis]) {
      Index& from = is_shared(axis) ? i : group;
      index += from % a.lead[axis] * step;
      from /= a.lead[axis];
    }
    return index;
  }
  Index end(Index chunk) const { return std::min(a.tq, (chunk + 1) * rows); }
  // Returns the keys that causality and the window allow the queries of a chunk to read. The range
  // starts at the first key of a panel.
  KeyRange keys(Index chunk) const {
    KeyRange seen = visible.rows(chunk * rows, end(chunk) - chunk * rows);
    seen.begin -= seen.begin % panel_width<T>();
    return seen;
  }
  // Returns the total number of keys of the chunks before this one, which is the position of its
  // sums in memory.
  Index keys_before(Index chunk) const {
    Index total = 0;
    for (Index c = 0; c < chunk; ++c) total += keys(c).size();
    return total;
  }
};

// The sums that a task updates. Row 0 of dk and dv belongs to keys.begin. dbias points to the sums
// for the head's bias, or is null. The sums of dbias are double, because all heads and rows may
// share one bias.
template <class T>
struct Sums {
  T *dk, *dv;
  double* dbias;
  Index dk_row, dv_row;
  KeyRange keys;
};

// Computes delta_i = dO_i . O_i for each row i, where x is dO (the gradient of the output) and y is
// the output O. The terms are added in the same order as in the product dO v^T. If only one key is
// visible, dP and delta are therefore equal, and dS is exactly 0.
template <class T>
HWY_NOINLINE void dot_rows(T* delta, const T* x, Index x_row, const T* y, Index y_row, Index rows,
                           Index n) {
  const hn::CappedTag<T, 1> d;
  constexpr int kTogether = 8;  // number of sums that are computed at the same time
  const auto row = [&](Index r) { return std::min(r, rows - 1); };
  for (Index r0 = 0; r0 < rows; r0 += kTogether) {
    hn::Vec<decltype(d)> total[kTogether];
    const T *a[kTogether], *b[kTogether];
    HWY_UNROLL(8)
    for (int r = 0; r < kTogether; ++r) {
      total[r] = hn::Zero(d);
      a[r] = x + row(r0 + r) * x_row, b[r] = y + row(r0 + r) * y_row;
    }
    for (Index c = 0; c < n; ++c) HWY_UNROLL(8)
    for (int r = 0; r < kTogether; ++r)
      total[r] = hn::MulAdd(hn::LoadU(d, a[r] + c), hn::LoadU(d, b[r] + c), total[r]);
    for (int r = 0; r < kTogether && r0 + r < rows; ++r) delta[r0 + r] = hn::GetLane(total[r]);
  }
}

// Returns true if causality allows query i to read only keys of the first block of kKeys keys.
// backward_row() then has the whole row of scores, and can compute two steps more accurately.
// First, the weights are divided by their sum, because weights computed from a rounded log-sum-exp
// do not add up to 1. Second, delta_i is computed as the sum of P dP over the keys. The rounding
// errors of this sum cancel in dS, but the rounding errors of dO . O would not.
template <class T>
bool in_one_block(const Head<T>& h, Index i) {
  return h.causal_end(i) <= kKeys;
}
// Returns the sum of p * ds over n columns. Masked columns, whose weight is 0, are skipped.
template <class T>
HWY_NOINLINE T weighted_sum(const T* p, const T* ds, Index n) {
  const Full<T> d;
  auto total = hn::Zero(d);
  for (Index c = 0; c < n; c += Index(hn::Lanes(d))) {
    const auto weight = hn::Load(d, p + c);
    const auto none = hn::Eq(weight, hn::Zero(d));  // multiplying by 0 would not remove NaN
    total = hn::Add(total, hn::IfThenZeroElse(none, hn::Mul(weight, hn::Load(d, ds + c))));
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

// Processes row i of a tile that starts at key j0, in place. p contains q k^T and becomes the
// weights. ds contains grad_out v^T and becomes the gradient of the scores. `own` are the columns
// that the query may read. Dropout is applied to `columns` columns of ds, which are then copied to
// dpattern unless it is null. `keep` points to the dropout flags, or is null if there is no
// dropout.
template <class T>
HWY_NOINLINE void backward_row(const Head<T>& h, T* p, T* ds, const std::uint8_t* keep, Index i,
                               Index j0, KeyRange own, Index columns, Index s_row, T delta,
                               T* dpattern) {
  const Full<T> d;
  const auto lanes = Index(hn::Lanes(d));
  finish_scores(h, p, i, j0, own, !h.plain);
  const double lse = h.lse[i] == kMinusInf<double> ? 0 : h.lse[i];
  // In a long row, most scores are near the log-mean-exp. The differences s - shift are then small,
  // and so are their rounding errors.
  const T shift = T(h.is_long(i) ? lse - std::log(double(h.visible.row(i).size())) : lse);
  const T total = T(exp_row(p, p, h.scale(), shift, own, s_row, sums_blocks<T>() ? j0 : -1));
  if (keep) drop_row(ds, keep, dropout_scale(h.a), columns);
  if (dpattern) std::copy_n(ds, columns, dpattern);
  T scale = T(std::exp(double(shift) - lse - h.lse_rest[i]));
  if (in_one_block(h, i)) {
    scale = total > 0 ? 1 / total : T(0);
    delta = weighted_sum(p, ds, s_row) * scale;
  }
  for (Index c = 0; c < s_row; c += lanes) {
    const auto weight = hn::Mul(hn::Load(d, p + c), hn::Set(d, scale));
    const auto spread = hn::Sub(hn::Load(d, ds + c), hn::Set(d, delta));
    const auto none = hn::Eq(weight, hn::Zero(d));  // multiplying by 0 would not remove NaN
    hn::Store(weight, d, p + c);
    hn::Store(hn::IfThenZeroElse(none, hn::Mul(weight, spread)), d, ds + c);
  }
  // If a score is NaN, all weights of the row are NaN. Those of hidden keys must be 0.
  if (shift != shift) clear_hidden(h, p, i, j0, s_row), clear_hidden(h, ds, i, j0, s_row);
}

// The keys and values of one head for a range of keys, packed for products. The object also has
// memory for a tile of scores and for the gradient of this tile.
template <class T>
struct Packed {
  KeyRange range;
  Scratch<T> keys_t, values_t, keys, block, q, g;
  T *p, *ds;
  bool not_finite;  // true if a key is not finite
  KeptRow kept;

  Packed(const Head<T>& h, KeyRange some)
      : range(some),
        keys_t(padded<T>(range.size()) * h.a.d),
        values_t(padded<T>(range.size()) * h.a.d_value),
        keys(range.size() * padded<T>(h.a.d)),
        block(2 * kQueries * kKeys),
        q(kQueries * padded<T>(h.a.d)),
        g(kQueries * padded<T>(h.a.d_value)),
        p(block.get()),
        ds(block.get() + kQueries * kKeys) {
    const Attention<T>& a = h.a;
    pack_panels(keys_t.get(), h.k + range.begin * a.k_at.row, 1, a.k_at.row, a.d, range.size());
    pack_panels(values_t.get(), h.v + range.begin * a.v_at.row, 1, a.v_at.row, a.d_value,
                range.size());
    not_finite = pack_rows(keys.get(), h.k, a.k_at.row, a.d, range, T(a.scale));
  }
  // Computes q k^T into p and grad_out v^T into ds, for `rows` queries and the keys `seen`.
  void multiply(const Head<T>& h, const T* queries, const T* grad_out, Index grad_out_row,
                Index rows, KeyRange seen) {
    const Index from = seen.begin - range.begin, s_row = padded<T>(seen.size());
    times_transposed(p, s_row, queries, h.a.q_at.row, rows, h.a.d, keys_t.get() + from * h.a.d,
                     seen.size());
    times_transposed(ds, s_row, grad_out, grad_out_row, rows, h.a.d_value,
                     values_t.get() + from * h.a.d_value, seen.size());
  }
};

// Writes the gradients of the scores and weights of a block of queries for a probe. They are
// computed in a separate pass, so that a probe does not change a bit of the results. The gradients
// of masked weights are written, too, and need not be 0.
template <class T>
HWY_NOINLINE void write_block(const Head<T>& h, const AttentionGrads<T>& g, Packed<T>& x,
                              const T* grad_out, Index i0, Index rows, const T* delta) {
  const Attention<T>& a = h.a;
  for (Index j0 = 0; j0 < a.tk; j0 += kKeys) {
    const Index columns = std::min(kKeys, a.tk - j0);
    const Index s_row = padded<T>(columns);
    const KeyRange seen{j0, j0 + columns};
    x.multiply(h, h.q + i0 * a.q_at.row, grad_out, g.grad_out_at.row, rows, seen);
    for (Index r = 0; r < rows; ++r) {
      const KeyRange own = h.columns(i0 + r, seen);
      const Index at = (h.index * a.tq + i0 + r) * a.tk + j0;
      T* ds = x.ds + r * s_row;
      const std::uint8_t* keep =
          a.dropout > 0 ? kept_in_row(h, x.kept, i0 + r, j0, columns) : nullptr;
      clear_hidden(h, ds, i0 + r, j0, columns);
      write_row(offset_or_null(g.ddropped, at), ds, columns, columns);
      backward_row(h, x.p + r * s_row, ds, keep, i0 + r, j0, own, columns, s_row, delta[r],
                   offset_or_null(g.dpattern, at));
      write_row(offset_or_null(g.dscores, at), ds, own.end, columns);
    }
  }
}

// Computes the gradients of `rows` queries, starting at query i0. The queries are those of
// h.rows_together(), and sums over their keys have type Sum. Writes dq, and adds to the sums for
// dk, dv and dbias.
template <class T, class Sum>
HWY_NOINLINE void backward_block(const Head<T>& h, const AttentionGrads<T>& g, Packed<T>& x,
                                 const Sums<T>& sums, Index i0, Index rows) {
  const Attention<T>& a = h.a;
  const Index d = a.d, dv = a.d_value;
  const T* q = h.q + i0 * a.q_at.row;
  const T* grad_out = g.grad_out + h.offset(g.grad_out_at.lead) + i0 * g.grad_out_at.row;
  T* dq = g.dq + h.offset(g.dq_at.lead) + i0 * g.dq_at.row;
  T delta[kQueries] = {};
  if (!in_one_block(h, i0 + rows - 1))
    dot_rows(delta, grad_out, g.grad_out_at.row, h.out + i0 * a.out_at.row, a.out_at.row, rows, dv);
  HWY_ALIGN Sum sum_dq[kQueries * kMaxHead];
  std::fill_n(sum_dq, rows * d, Sum(0));
  pack_panels(x.q.get(), q, a.q_at.row, 1, rows, d);
  const bool q_not_finite = scale_panels(x.q.get(), rows, d, T(a.scale));
  pack_panels(x.g.get(), grad_out, g.grad_out_at.row, 1, rows, dv);
  const bool g_not_finite = scale_panels(x.g.get(), rows, dv, T(1));
  for (Index j0 = block_of(x.range.begin).begin; j0 < x.range.end; j0 += kKeys) {
    const KeyRange seen = h.tile(i0, rows, j0);
    if (seen.empty()) continue;
    const Index columns = seen.size(), s_row = padded<T>(columns);
    x.multiply(h, q, grad_out, g.grad_out_at.row, rows, seen);
    for (Index r = 0; r < rows; ++r) {
      const KeyRange own = h.columns(i0 + r, seen);
      const Index i = i0 + r, n = own.end;
      T *p = x.p + r * s_row, *ds = x.ds + r * s_row;
      const std::uint8_t* keep = a.dropout > 0 ? kept_in_row(h, x.kept, i, seen.begin, n) : nullptr;
      backward_row(h, p, ds, keep, i, seen.begin, own, n, s_row, delta[r],
                   static_cast<T*>(nullptr));
      if (keep) drop_row(p, keep, dropout_scale(a), n);
      if (sums.dbias) {
        const Index step = g.dbias_at.column;
        double* dbias = sums.dbias + i * g.dbias_at.row + seen.begin * step;
        for (Index j = 0; j < n; ++j) dbias[j * step] += double(ds[j]);
      }
    }
    const Index at = seen.begin - sums.keys.begin;
    add_product(sum_dq, x.ds, s_row, rows, d, packed_rows(x.keys.get(), x.range, d, seen.begin),
                seen.begin, columns);
    multiply_block<T>(columns, dv, rows, {x.p, 1, s_row}, packed_panels(x.g.get(), rows),
                      sums.dv + at * sums.dv_row, sums.dv_row, 1, false, nullptr);
    multiply_block<T>(columns, d, rows, {x.ds, 1, s_row}, packed_panels(x.q.get(), rows),
                      sums.dk + at * sums.dk_row, sums.dk_row, 1, false, nullptr);
    if (x.not_finite)
      add_not_finite(h, sum_dq, d, x.ds, i0, rows, seen, true, h.k + seen.begin * a.k_at.row,
                     a.k_at.row, d, T(a.scale));
    if (g_not_finite)
      add_not_finite(h, sums.dv + at * sums.dv_row, sums.dv_row, x.p, i0, rows, seen, false,
                     grad_out, g.grad_out_at.row, dv, T(1));
    if (q_not_finite)
      add_not_finite(h, sums.dk + at * sums.dk_row, sums.dk_row, x.ds, i0, rows, seen, false, q,
                     a.q_at.row, d, T(a.scale));
  }
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < d; ++c) dq[r * g.dq_at.row + c] = T(sum_dq[r * d + c]);
  if (g.dscores || g.dpattern || g.ddropped) write_block(h, g, x, grad_out, i0, rows, delta);
}

// Computes one chunk of queries [begin, end) of one head. `keys` is the result of Tasks::keys() for
// the chunk.
template <class T>
HWY_NOINLINE void backward_chunk(const Head<T>& h, const AttentionGrads<T>& g, const Sums<T>& sums,
                                 Index begin, Index end, KeyRange keys) {
  keys = keys & h.keys;
  keys.begin -= keys.begin % panel_width<T>();                    // rounds down to a panel
  if (g.dscores || g.dpattern || g.ddropped) keys = {0, h.a.tk};  // a probe needs all keys
  Packed<T> x(h, keys);
  // Rows of dk and dv are set to 0 just before the first tile that may add to them, so that the
  // rows are still in the cache for the addition.
  Index cleared = 0;
  const auto clear_before = [&](Index j) {
    for (; cleared < j; ++cleared) {
      std::fill_n(sums.dk + cleared * sums.dk_row, h.a.d, T(0));
      std::fill_n(sums.dv + cleared * sums.dv_row, h.a.d_value, T(0));
    }
  };
  for (Index i0 = begin, rows; i0 < end; i0 += rows) {
    rows = h.rows_together(i0, end);
    clear_before(h.visible.rows(i0, rows).end - sums.keys.begin);
    const auto block = h.is_long(i0) ? backward_block<T, double> : backward_block<T, T>;
    block(h, g, x, sums, i0, rows);
  }
  clear_before(sums.keys.size());
}

// Computes rows `some` of dk or dv of a head as the sum over its chunks, in the order of the
// chunks. `first` points to the sums of the first chunk, and `width` is the length of a row.
template <class T>
void add_chunks(const Tasks<T>& tasks, T* out, Index out_row, const T* first, Index width,
                KeyRange some) {
  for (Index j = some.begin; j < some.end; ++j) std::fill_n(out + j * out_row, width, T(0));
  for (Index c = 0; c < tasks.chunks; ++c) {
    const KeyRange keys = tasks.keys(c), both = keys & some;
    for (Index j = both.begin; j < both.end; ++j) {
      const T* HWY_RESTRICT row = first + (j - keys.begin) * width;
      T* HWY_RESTRICT sum = out + j * out_row;
      for (Index i = 0; i < width; ++i) sum[i] += row[i];
    }
    first += keys.size() * width;
  }
}

template <class T>
void backward(const Attention<T>& a, const AttentionGrads<T>& g) {
  const VisibleKeys visible(a);
  const Tasks<T> tasks(a, g, visible);
  const bool apart = tasks.chunks > 1;
  const Index bias_parts = !g.dbias ? 0 : apart && g.dbias_at.row == 0 ? tasks.chunks : 1;
  const Index heads = a.heads(), all_keys = tasks.keys_before(tasks.chunks);
  const Scratch<T> dk(apart ? heads * all_keys * a.d : 0),
      dv(apart ? heads * all_keys * a.d_value : 0);
  const Scratch<double> dbias(bias_parts * g.dbias_size);
  constexpr Index kGrain = 1 << 14;
  parallel_for(bias_parts * g.dbias_size, kGrain, [&](Index begin, Index end) {
    std::fill(dbias.get() + begin, dbias.get() + end, 0.0);
  });
  parallel_for(tasks.groups * tasks.chunks, 1, [&](Index begin, Index end) HWY_ATTR {
    for (Index task = begin; task < end; ++task) {
      // The last chunks run first, because with causality they have the most keys.
      const Index chunk = tasks.chunks - 1 - task / tasks.groups;
      for (Index i = 0; i < tasks.members; ++i) {
        const Head<T> h(a, visible, tasks.head(task % tasks.groups, i));
        const Index row = h.index * all_keys + tasks.keys_before(chunk);
        const KeyRange keys = tasks.keys(chunk);
        Sums<T> sums{g.dk + h.offset(g.dk_at.lead),
                     g.dv + h.offset(g.dv_at.lead),
                     nullptr,
                     g.dk_at.row,
                     g.dv_at.row,
                     {0, a.tk}};
        if (apart)
          sums = {dk.get() + row * a.d, dv.get() + row * a.d_value, nullptr, a.d, a.d_value, keys};
        if (g.dbias)
          sums.dbias =
              dbias.get() + (bias_parts > 1 ? chunk * g.dbias_size : 0) + h.offset(g.dbias_at.lead);
        backward_chunk(h, g, sums, chunk * tasks.rows, tasks.end(chunk), keys);
      }
    }
  });
  constexpr Index kTogether = 64;  // rows of dk or dv per task; they stay in the cache
  const Index blocks = (a.tk + kTogether - 1) / kTogether;
  parallel_for(apart ? heads * blocks : 0, 1, [&](Index block, Index) HWY_ATTR {
    const Head<T> h(a, visible, block / blocks);
    const Index j0 = block % blocks * kTogether;
    const KeyRange some{j0, std::min(a.tk, j0 + kTogether)};
    add_chunks(tasks, g.dk + h.offset(g.dk_at.lead), g.dk_at.row,
               dk.get() + h.index * all_keys * a.d, a.d, some);
    add_chunks(tasks, g.dv + h.offset(g.dv_at.lead), g.dv_at.row,
               dv.get() + h.index * all_keys * a.d_value, a.d_value, some);
  });
  parallel_for(g.dbias ? g.dbias_size : 0, kGrain, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      double sum = 0;
      for (Index c = 0; c < bias_parts; ++c) sum += dbias.get()[c * g.dbias_size + i];
      g.dbias[i] = T(sum);
    }
  });
}

void backward_float(const Attention<float>& a, const AttentionGrads<float>& g) { backward(a, g); }
void backward_double(const Attention<double>& a, const AttentionGrads<double>& g) {
  backward(a, g);
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::autograd::kernels::simd {
namespace {
HWY_EXPORT(backward_float);
HWY_EXPORT(backward_double);
}  // namespace

void attention_backward(const Attention<float>& a, const AttentionGrads<float>& g) {
  HWY_DYNAMIC_DISPATCH(backward_float)(a, g);
}
void attention_backward(const Attention<double>& a, const AttentionGrads<double>& g) {
  HWY_DYNAMIC_DISPATCH(backward_double)(a, g);
}

}  // namespace heed::autograd::kernels::simd
#endif
