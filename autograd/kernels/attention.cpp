#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/kernels/attention.cpp"
#include "autograd/kernels/targets.h"

#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

#include "autograd/kernels/attention.h"
#include "autograd/kernels/gemm-inl.h"
#include "autograd/kernels/vector_math-inl.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/kernels/scratch.h"
#include "autograd/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kQueries = 48;    // rows of scores at a time
constexpr std::int64_t kKeys = kBlockK;  // columns of scores at a time: a block of k for P V

// One head: the pointers of a task, and the keys that exist.
template <class T>
struct Head {
  const Attention<T>& a;
  const T *q, *k, *v;
  T *out, *lse;
  std::int64_t keys;  // without padding

  Head(const Attention<T>& all, std::int64_t index) : a(all) {
    const std::int64_t b = index / a.heads, h = index % a.heads;
    q = a.q + b * a.q_at.batch + h * a.q_at.head;
    k = a.k + b * a.k_at.batch + h * a.k_at.head;
    v = a.v + b * a.v_at.batch + h * a.v_at.head;
    out = a.out + b * a.out_at.batch + h * a.out_at.head;
    lse = a.lse + index * a.tq;
    keys = a.lengths ? std::min(a.tk, a.lengths[b]) : a.tk;
  }
  // Keys that query i may read.
  std::int64_t visible(std::int64_t i) const {
    return a.causal ? std::clamp<std::int64_t>(i + 1 + a.tk - a.tq, 0, keys) : keys;
  }
};

// Columns rounded up to whole panels: how rows of scores are spaced.
template <class T>
std::int64_t padded(std::int64_t n) {
  return panels_of<T>(n) * panel_width<T>();
}

// p[0..n) = exp(s * scale - shift), p[n..end) = 0; returns their sum. p may be s.
template <class T>
HWY_NOINLINE T exp_row(T* p, const T* s, T scale, T shift, std::int64_t n, std::int64_t end) {
  const Full<T> d;
  const auto lanes = std::int64_t(hn::Lanes(d));
  auto total = hn::Zero(d);
  for (std::int64_t i = 0; i < end; i += lanes) {  // rows are padded to whole vectors
    const auto in = hn::FirstN(d, std::size_t(std::clamp<std::int64_t>(n - i, 0, lanes)));
    const auto e = hn::IfThenElseZero(
        in, exp_near_zero(d, hn::MulSub(hn::Load(d, s + i), hn::Set(d, scale), hn::Set(d, shift))));
    hn::Store(e, d, p + i);
    total = hn::Add(total, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

template <class T>
HWY_NOINLINE T max_row(const T* s, std::int64_t n) {
  const Full<T> d;
  const auto lanes = std::int64_t(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto top = lowest;
  for (std::int64_t i = 0; i < n; i += lanes) {
    const auto in = hn::FirstN(d, std::size_t(std::min(lanes, n - i)));
    top = hn::Max(top, hn::IfThenElse(in, hn::Load(d, s + i), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, top));
}

// Scores [rows, columns of the block] = q k^T, unscaled. Keys are packed once for all queries.
template <class T>
HWY_INLINE void scores(const Head<T>& h, std::int64_t i0, std::int64_t rows, const T* packed_keys,
                       std::int64_t j0, std::int64_t columns, T* s, std::int64_t s_row) {
  multiply_block<T>(rows, columns, h.a.d, {h.q + i0 * h.a.q_at.row, h.a.q_at.row, 1},
                    packed_panels(packed_keys + j0 * h.a.d, h.a.d), s, s_row, 1, true, nullptr);
}

template <class T>
HWY_NOINLINE void forward_block(const Head<T>& h, const T* packed_keys, const T* packed_values,
                                std::int64_t i0) {
  const Attention<T>& a = h.a;
  const std::int64_t rows = std::min(kQueries, a.tq - i0), dv = a.d_value;
  const std::int64_t seen = h.visible(i0 + rows - 1);
  const T scale = T(a.scale);
  HWY_ALIGN T s[kQueries * kKeys];
  HWY_ALIGN T acc[kQueries * kMaxHead];
  T top[kQueries], total[kQueries];
  std::fill_n(top, rows, -std::numeric_limits<T>::infinity());
  std::fill_n(total, rows, T(0));
  std::fill_n(acc, rows * dv, T(0));
  for (std::int64_t j0 = 0; j0 < seen; j0 += kKeys) {
    const std::int64_t columns = std::min(kKeys, seen - j0), s_row = padded<T>(columns);
    scores(h, i0, rows, packed_keys, j0, columns, s, s_row);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t n = std::clamp<std::int64_t>(h.visible(i0 + r) - j0, 0, columns);
      T* row = s + r * s_row;
      // Online softmax: when a larger score appears, what was summed shrinks (Milakov &
      // Gimelshein 2018).
      const T now = std::max(top[r], n > 0 ? max_row(row, n) * scale : top[r]);
      const T shift = now == -std::numeric_limits<T>::infinity() ? T(0) : now;
      const T shrink = j0 == 0 ? T(0) : std::exp(top[r] - shift);
      total[r] = total[r] * shrink + exp_row(row, row, scale, shift, n, s_row);
      if (j0 > 0 && shrink != T(1))
        for (std::int64_t c = 0; c < dv; ++c) acc[r * dv + c] *= shrink;
      top[r] = now;
    }
    multiply_block<T>(
        rows, dv, columns, {s, s_row, 1},
        packed_panels(packed_values + j0 * padded<T>(dv), std::min(kKeys, h.keys - j0)), acc, dv, 1,
        false, nullptr);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const T inverse = total[r] > T(0) ? T(1) / total[r] : T(0);  // no key: output 0
    T* out = h.out + (i0 + r) * a.out_at.row;
    for (std::int64_t c = 0; c < dv; ++c) out[c] = acc[r * dv + c] * inverse;
    h.lse[i0 + r] = top[r] + std::log(total[r]);
    if (total[r] != total[r])  // NaN came in: NaN goes out
      std::fill_n(out, dv, total[r]);
  }
}

// V in blocks of kKeys rows, each as panels.
template <class T>
HWY_INLINE void pack_rows(T* out, const T* x, std::int64_t row, std::int64_t rows,
                          std::int64_t columns) {
  for (std::int64_t j0 = 0; j0 < rows; j0 += kKeys)
    pack_panels(out + j0 * padded<T>(columns), x + j0 * row, row, 1, std::min(kKeys, rows - j0),
                columns);
}
// K^T in blocks of kKeys columns; a block is made of whole panels, so this is one packing.
template <class T>
HWY_INLINE void pack_transposed(T* out, const T* x, std::int64_t row, std::int64_t rows,
                                std::int64_t columns) {
  pack_panels(out, x, 1, row, columns, rows);
}

template <class T>
void forward(const Attention<T>& a) {
  const std::int64_t heads = a.batch * a.heads;
  const std::int64_t blocks = (a.tq + kQueries - 1) / kQueries;
  const auto run = [&](std::int64_t index, auto over_blocks) HWY_ATTR {
    const Head<T> h(a, index);
    const Scratch<T> keys(padded<T>(h.keys) * a.d);
    const Scratch<T> values(h.keys * padded<T>(a.d_value));
    pack_transposed(keys.get(), h.k, a.k_at.row, h.keys, a.d);
    pack_rows(values.get(), h.v, a.v_at.row, h.keys, a.d_value);
    over_blocks(blocks, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      for (std::int64_t i = begin; i < end; ++i)
        forward_block(h, keys.get(), values.get(), i * kQueries);
    });
  };
  // Many heads are shared out whole; of few, the blocks of queries.
  if (heads >= 8)
    return parallel_for(heads, 1, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
      for (std::int64_t i = begin; i < end; ++i)
        run(i, [](std::int64_t n, auto f) HWY_ATTR { f(0, n); });
    });
  for (std::int64_t i = 0; i < heads; ++i)
    run(i, [](std::int64_t n, auto f) { parallel_for(n, 1, f); });
}

template <class T>
void backward_head(const Attention<T>& a, const AttentionGrads<T>& g, std::int64_t index) {
  const Head<T> h(a, index);
  const std::int64_t b = index / a.heads, head = index % a.heads, d = a.d, dv = a.d_value;
  const T* grad_out = g.grad_out + b * g.grad_out_at.batch + head * g.grad_out_at.head;
  T* dq = g.dq + b * g.dq_at.batch + head * g.dq_at.head;
  T* dk = g.dk + b * g.dk_at.batch + head * g.dk_at.head;
  T* dval = g.dv + b * g.dv_at.batch + head * g.dv_at.head;
  const Full<T> tag;
  const auto lanes = std::int64_t(hn::Lanes(tag));
  const Scratch<T> keys_t(padded<T>(h.keys) * d), values_t(padded<T>(h.keys) * dv);
  const Scratch<T> keys(h.keys * padded<T>(d));
  pack_transposed(keys_t.get(), h.k, a.k_at.row, h.keys, d);
  pack_transposed(values_t.get(), h.v, a.v_at.row, h.keys, dv);
  pack_rows(keys.get(), h.k, a.k_at.row, h.keys, d);
  const Scratch<T> block(2 * kQueries * kKeys), packed_q(kQueries * padded<T>(d)),
      packed_g(kQueries * padded<T>(dv));
  T *p = block.get(), *ds = block.get() + kQueries * kKeys;
  for (std::int64_t j = 0; j < a.tk; ++j) {
    std::fill_n(dk + j * g.dk_at.row, d, T(0));
    std::fill_n(dval + j * g.dv_at.row, dv, T(0));
  }
  const T scale = T(a.scale);
  for (std::int64_t i0 = 0; i0 < a.tq; i0 += kQueries) {
    const std::int64_t rows = std::min(kQueries, a.tq - i0);
    const std::int64_t seen = h.visible(i0 + rows - 1);
    T delta[kQueries];  // sum over j of dP_ij P_ij = dO_i . O_i
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* go = grad_out + (i0 + r) * g.grad_out_at.row;
      const T* out = h.out + (i0 + r) * a.out_at.row;
      delta[r] = T(0);
      for (std::int64_t c = 0; c < dv; ++c) delta[r] += go[c] * out[c];
      std::fill_n(dq + (i0 + r) * g.dq_at.row, d, T(0));
    }
    pack_panels(packed_q.get(), h.q + i0 * a.q_at.row, a.q_at.row, 1, rows, d);
    pack_panels(packed_g.get(), grad_out + i0 * g.grad_out_at.row, g.grad_out_at.row, 1, rows, dv);
    for (std::int64_t j0 = 0; j0 < seen; j0 += kKeys) {
      const std::int64_t columns = std::min(kKeys, seen - j0), s_row = padded<T>(columns);
      scores(h, i0, rows, keys_t.get(), j0, columns, p, s_row);
      multiply_block<T>(rows, columns, dv,
                        {grad_out + i0 * g.grad_out_at.row, g.grad_out_at.row, 1},
                        packed_panels(values_t.get() + j0 * dv, dv), ds, s_row, 1, true, nullptr);
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t n = std::clamp<std::int64_t>(h.visible(i0 + r) - j0, 0, columns);
        T *p_row = p + r * s_row, *ds_row = ds + r * s_row;
        exp_row(p_row, p_row, scale, n > 0 ? h.lse[i0 + r] : T(0), n, s_row);
        for (std::int64_t c = 0; c < s_row; c += lanes) {
          const auto weight = hn::Load(tag, p_row + c);
          const auto in = hn::FirstN(tag, std::size_t(std::clamp<std::int64_t>(n - c, 0, lanes)));
          const auto spread = hn::Sub(hn::Load(tag, ds_row + c), hn::Set(tag, delta[r]));
          hn::Store(hn::IfThenElseZero(in, hn::Mul(hn::Mul(weight, spread), hn::Set(tag, scale))),
                    tag, ds_row + c);
        }
      }
      multiply_block<T>(rows, d, columns, {ds, s_row, 1},
                        packed_panels(keys.get() + j0 * padded<T>(d), std::min(kKeys, h.keys - j0)),
                        dq + i0 * g.dq_at.row, g.dq_at.row, 1, false, nullptr);
      multiply_block<T>(columns, dv, rows, {p, 1, s_row}, packed_panels(packed_g.get(), rows),
                        dval + j0 * g.dv_at.row, g.dv_at.row, 1, false, nullptr);
      multiply_block<T>(columns, d, rows, {ds, 1, s_row}, packed_panels(packed_q.get(), rows),
                        dk + j0 * g.dk_at.row, g.dk_at.row, 1, false, nullptr);
    }
  }
}

template <class T>
void backward(const Attention<T>& a, const AttentionGrads<T>& g) {
  parallel_for(a.batch * a.heads, 1, [&](std::int64_t begin, std::int64_t end) HWY_ATTR {
    for (std::int64_t i = begin; i < end; ++i) backward_head(a, g, i);
  });
}

void forward_float(const Attention<float>& a) { forward(a); }
void forward_double(const Attention<double>& a) { forward(a); }
void backward_float(const Attention<float>& a, const AttentionGrads<float>& g) { backward(a, g); }
void backward_double(const Attention<double>& a, const AttentionGrads<double>& g) {
  backward(a, g);
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::autograd::kernels {
namespace {
HWY_EXPORT(forward_float);
HWY_EXPORT(forward_double);
HWY_EXPORT(backward_float);
HWY_EXPORT(backward_double);
}  // namespace

void attention(const Attention<float>& a) { HWY_DYNAMIC_DISPATCH(forward_float)(a); }
void attention(const Attention<double>& a) { HWY_DYNAMIC_DISPATCH(forward_double)(a); }
void attention_backward(const Attention<float>& a, const AttentionGrads<float>& g) {
  HWY_DYNAMIC_DISPATCH(backward_float)(a, g);
}
void attention_backward(const Attention<double>& a, const AttentionGrads<double>& g) {
  HWY_DYNAMIC_DISPATCH(backward_double)(a, g);
}

}  // namespace heed::autograd::kernels
#endif
