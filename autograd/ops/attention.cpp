// Scaled dot-product attention: a composite of public ops, every part of it differentiable, and a
// fused op whose definition it is.
#include <cmath>

#include "autograd/graph.h"
#include "autograd/kernels/attention.h"
#include "autograd/ops.h"

namespace heed::autograd {
namespace {

Samples attention_samples(SampleGen& g) {
  const auto with = [](AttentionOptions options) {
    return [options](Args t) { return attention(t[0], t[1], t[2], options); };
  };
  const auto qkv = [&g](std::int64_t tq, std::int64_t tk) -> std::vector<Tensor> {
    return {g.normal({2, tq, 3}), g.normal({2, tk, 3}), g.normal({2, tk, 2})};
  };
  const Tensor keep = from_data(
      std::vector<bool>{true, false, true, false, false, false, true, true, false}, {3, 3});
  const auto heads = [&g](std::int64_t tq, std::int64_t tk) -> std::vector<Tensor> {
    return {g.normal({1, 2, tq, 3}), g.normal({1, 2, tk, 3}), g.normal({1, 2, tk, 2})};
  };
  return {{"fused", with({}), heads(2, 3)},
          {"fused, causal", with({.causal = true}), heads(4, 4)},
          {"fused, causal, rows without a key", with({.scale = 0.3, .causal = true}), heads(4, 2)},
          {"plain", with({}), qkv(2, 3)},
          {"causal", with({.causal = true}), qkv(4, 4)},
          {"causal, more keys", with({.scale = 0.3, .causal = true}), qkv(2, 4)},
          {"a row masked, a key unread", with({.keep = KeepMask(keep)}), qkv(3, 3)},
          {"everything masked", with({.keep = KeepMask(full({3, 3}, 0, bool8))}), qkv(3, 3)},
          {"dropout",
           [](Args t) {
             Generator fixed(7);
             return attention(t[0], t[1], t[2], {.dropout = 0.4, .generator = &fixed});
           },
           qkv(3, 3)}};
}
const Op kAttention({.name = "attention", .saves = Saves::kBoth, .samples = attention_samples});

// ---- the fused path: memory O(T)

// The kernel takes [B, H, T, d] of one batch shape without masks but the causal one, dropout or
// anybody looking in; the composite takes the rest.
bool fits_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  return q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && q.dtype() == k.dtype() &&
         q.dtype() == v.dtype() && (q.dtype() == float32 || q.dtype() == float64) &&
         k.shape().sub(0, 2) == q.shape().sub(0, 2) && v.shape().sub(0, 2) == q.shape().sub(0, 2) &&
         q.size(3) == k.size(3) && k.size(2) == v.size(2) && q.size(3) <= kernels::kMaxHead &&
         v.size(3) <= kernels::kMaxHead && q.numel() > 0 && k.numel() > 0 && v.numel() > 0 &&
         !o.keep.defined() && o.dropout == 0 && !o.on_scores && !o.on_pattern;
}

// The last axis adjacent, as the kernel reads it.
Tensor with_unit_rows(const Tensor& x) {
  return x.strides()[3] == 1 || x.size(3) == 1 ? x.detach() : contiguous(x.detach());
}
kernels::HeadStrides head_strides(const Tensor& x) {
  return {x.strides()[0], x.strides()[1], x.strides()[2]};
}

struct Heads {
  Tensor q, k, v;
  Heads(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in)
      : q(with_unit_rows(q_in)), k(with_unit_rows(k_in)), v(with_unit_rows(v_in)) {}
};

template <class T>
kernels::Attention<T> arguments(const Heads& h, const Tensor& out, const Tensor& lse, double scale,
                                bool causal) {
  kernels::Attention<T> a;
  a.batch = h.q.size(0), a.heads = h.q.size(1), a.tq = h.q.size(2), a.tk = h.k.size(2);
  a.d = h.q.size(3), a.d_value = h.v.size(3);
  a.q = h.q.data<T>(), a.k = h.k.data<T>(), a.v = h.v.data<T>();
  a.out = out.mutable_data<T>(), a.lse = lse.mutable_data<T>();
  a.q_at = head_strides(h.q), a.k_at = head_strides(h.k), a.v_at = head_strides(h.v);
  a.out_at = head_strides(out);
  a.scale = scale, a.causal = causal;
  return a;
}

Grads backward(const Vjp& v, const Tensor& lse, double scale, bool causal) {
  const Heads heads(v.input(0), v.input(1), v.input(2));
  const Tensor grad_out = with_unit_rows(v.grad), out = v.output();
  // [B, T, H, d] in memory, as the projections' gradients want them.
  const auto like = [](const Tensor& x) {
    return permute(empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.dtype()), {0, 2, 1, 3});
  };
  const Tensor dq = like(heads.q), dk = like(heads.k), dv = like(heads.v);
  dispatch_floating(out.dtype(), kAttention, [&]<class T> {
    if constexpr (!std::is_same_v<T, Dual>) {
      kernels::AttentionGrads<T> g;
      g.grad_out = grad_out.data<T>(), g.grad_out_at = head_strides(grad_out);
      g.dq = dq.mutable_data<T>(), g.dq_at = head_strides(dq);
      g.dk = dk.mutable_data<T>(), g.dk_at = head_strides(dk);
      g.dv = dv.mutable_data<T>(), g.dv_at = head_strides(dv);
      kernels::attention_backward(arguments<T>(heads, out, lse, scale, causal), g);
    }
  });
  return {dq, dk, dv};
}

// ---- the composite

// Places that may be read, [..., Tq, Tk], or undefined for all.
Tensor readable(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  KeepMask keep = options.keep;
  if (options.causal) keep = keep & KeepMask::causal(q.size(-2), k.size(-2));
  return keep.tensor();
}

}  // namespace

AttentionResult attention_with_weights(const Tensor& q, const Tensor& k_in, const Tensor& v_in,
                                       const AttentionOptions& options) {
  check(q.rank() >= 2 && k_in.rank() >= 2 && v_in.rank() >= 2 && q.size(-1) == k_in.size(-1) &&
            k_in.size(-2) == v_in.size(-2),
        "attention", "needs q [..., Tq, d], k [..., Tk, d], v [..., Tk, d_value], got ", q.shape(),
        ", ", k_in.shape(), ", ", v_in.shape());
  const double scale = options.scale.value_or(1 / std::sqrt(double(q.size(-1))));
  const Tensor keep = readable(q, k_in, options);
  Tensor k = k_in, v = v_in;
  if (keep.defined()) {
    // 0 * NaN is NaN: keys that no query reads are cleared, not multiplied away.
    const Tensor unread = logical_not(any(keep, {-2}, true));  // [..., 1, Tk]
    if (any(unread).item() != 0) {
      const Tensor gone = mT(unread);  // [..., Tk, 1]
      k = masked_fill(expand(k, broadcast("attention", k.shape(), gone.shape())), gone, 0);
      v = masked_fill(expand(v, broadcast("attention", v.shape(), gone.shape())), gone, 0);
    }
  }
  AttentionResult r;
  r.scores = matmul(q * scale, mT(k));  // [..., Tq, Tk]
  if (keep.defined())
    r.scores = masked_fill(expand(r.scores, broadcast("attention", r.scores.shape(), keep.shape())),
                           logical_not(keep), -kInf);
  if (options.on_scores) r.scores = options.on_scores(r.scores);
  r.pattern = softmax(r.scores, -1);
  if (options.on_pattern) r.pattern = options.on_pattern(r.pattern);
  Generator& generator = options.generator ? *options.generator : default_generator();
  r.output = matmul(dropout(r.pattern, options.dropout, generator), v);
  return r;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  if (!fits_kernel(q, k, v, options)) return attention_with_weights(q, k, v, options).output;
  const double scale = options.scale.value_or(1 / std::sqrt(double(q.size(-1))));
  const Heads heads(q, k, v);
  // [B, T, H, d_value] in memory, seen as [B, H, T, d_value]: what merging the heads wants.
  const Tensor out =
      permute(empty({q.size(0), q.size(2), q.size(1), v.size(3)}, q.dtype()), {0, 2, 1, 3});
  const Tensor lse = empty({q.size(0), q.size(1), q.size(2)}, q.dtype());
  dispatch_floating(q.dtype(), kAttention, [&]<class T> {
    if constexpr (!std::is_same_v<T, Dual>)
      kernels::attention(arguments<T>(heads, out, lse, scale, options.causal));
  });
  return record(
      kAttention, {q, k, v}, out,
      [options](Args t) { return attention_with_weights(t[0], t[1], t[2], options).output; },
      [lse, scale, causal = options.causal](const Vjp& g) {
        return backward(g, lse, scale, causal);
      });
}

}  // namespace heed::autograd
