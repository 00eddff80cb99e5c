// Scaled dot-product attention, fused: memory O(T). Its definition, which takes what the kernel
// does not: autograd/ops/attention_with_weights.cpp.
#include "autograd/kernels/simd/attention.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "autograd/graph/graph.h"
#include "autograd/kernels/simd/simd.h"
#include "autograd/ops/attention_with_weights.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {
namespace {

// attention under these options, of q, k, v and, if there is a fourth input, a bias.
auto with(const AttentionOptions& options) {
  return [options](Args t) {
    Generator fixed(7);  // of its own in every call: f must be a function
    AttentionOptions o = options;
    o.generator = &fixed;
    if (t.size() > 3) o.bias = ScoreBias(t[3]);
    return attention(t[0], t[1], t[2], o);
  };
}
// q, k, v of d = 3 and d_value = 2, of these leading axes
std::vector<Tensor> qkv(SampleGen& g, const Shape& lead, std::int64_t tq, std::int64_t tk) {
  const auto draw = [&](std::int64_t rows, std::int64_t columns) {
    Shape shape = lead;
    shape.push_back(rows), shape.push_back(columns);
    return g.normal(shape);
  };
  return {draw(tq, 3), draw(tk, 3), draw(tk, 2)};
}
std::vector<Tensor> and_bias(SampleGen& g, std::vector<Tensor> inputs, const Shape& shape) {
  inputs.push_back(g.normal(shape));
  return inputs;
}

Samples attention_samples(SampleGen& g) {
  // Row 1 may read nothing, and nobody may read key 1.
  const KeepMask keep(from_data(
      std::vector<bool>{true, false, true, false, false, false, true, false, false}, {3, 3}));
  const KeepMask nothing(full({3, 3}, 0, bool8));
  const Shape heads = {2, 2};
  Samples samples = {
      {"plain", with({}), qkv(g, heads, 2, 3)},
      {"causal", with({.causal = true}), qkv(g, heads, 4, 4)},
      {"causal, rows without a key", with({.scale = 0.3, .causal = true}), qkv(g, heads, 4, 2)},
      {"negative scale", with({.scale = -0.7}), qkv(g, heads, 2, 2)},
      {"soft cap", with({.scale = 2, .soft_cap = 1.5}), qkv(g, heads, 2, 3)},
      {"soft cap, causal, a row masked, bias",
       with({.soft_cap = 0.8, .causal = true, .keep = keep}),
       and_bias(g, qkv(g, heads, 3, 3), {2, 3, 3})},
      {"a row masked, a key unread", with({.keep = keep}), qkv(g, heads, 3, 3)},
      {"everything masked", with({.keep = nothing}), qkv(g, heads, 3, 3)},
      {"everything masked, uniform", with({.keep = nothing, .fully_masked = FullyMasked::kUniform}),
       qkv(g, heads, 3, 3)},
      {"a row masked, uniform, dropout",
       with({.keep = keep, .fully_masked = FullyMasked::kUniform, .dropout = 0.3}),
       and_bias(g, qkv(g, {2}, 3, 3), {3})},
      {"causal at the top left", with({.causal = true, .alignment = CausalAlignment::kTopLeft}),
       qkv(g, heads, 3, 4)},
      {"padding", with({.keep = KeepMask::padding(std::vector<std::int64_t>{3, 1}, 3)}),
       qkv(g, heads, 2, 3)},
      {"dropout", with({.dropout = 0.4}), qkv(g, heads, 3, 3)},
      {"bias", with({}), and_bias(g, qkv(g, heads, 3, 2), {2, 2, 3, 2})},
      {"bias per head", with({.causal = true}), and_bias(g, qkv(g, heads, 3, 3), {2, 3, 3})},
      {"bias per key", with({}), and_bias(g, qkv(g, heads, 2, 3), {3})},
      {"causal, keep, bias, dropout, a row masked",
       with({.causal = true, .keep = keep, .dropout = 0.3}),
       and_bias(g, qkv(g, heads, 3, 3), {2, 1, 3, 3})},
      {"rank 3", with({.keep = keep}), and_bias(g, qkv(g, {2}, 3, 3), {2, 3, 1})},
      {"rank 2", with({.dropout = 0.3}), qkv(g, {}, 2, 3)}};
  samples.push_back({"q, k and v of one shape",
                     with({.causal = true, .dropout = 0.3}),
                     {g.normal({1, 2, 3, 3}), g.normal({1, 2, 3, 3}), g.normal({1, 2, 3, 3})}});
  // One key head for two of queries; five axes take the composite.
  std::vector<Tensor> shared = qkv(g, {1, 2}, 2, 3);
  shared[1] = g.normal({1, 1, 3, 3});
  samples.push_back({"a shared key head", with({}), shared});
  samples.push_back({"five axes", with({.keep = keep, .dropout = 0.3}),
                     and_bias(g, qkv(g, {1, 1, 2}, 3, 3), {3, 3})});
  // What is replaced is the composite's.
  const auto bent = [](const Tensor& x) { return tanh(x); };
  const auto squared = [](const Tensor& x) { return x * x; };
  samples.push_back({"scores replaced", with({.on_scores = bent}), qkv(g, {1, 2}, 2, 3)});
  samples.push_back(
      {"raw scores and dropped weights replaced",
       with({.causal = true, .dropout = 0.3, .on_raw_scores = bent, .on_dropped = squared}),
       qkv(g, {1, 2}, 3, 3)});
  return samples;
}
const Op kAttention({.name = "attention",
                     .saves = Saves::kBoth,
                     .samples = attention_samples,
                     .no_sizes = needs_axis()});

// [..., Tq, Tk]
Shape scores_shape(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto lead = [](const Tensor& x) { return x.shape().sub(0, x.rank() - 2); };
  Shape shape = broadcast(kAttention, broadcast(kAttention, lead(q), lead(k)), lead(v));
  shape.push_back(q.size(-2)), shape.push_back(k.size(-2));
  return shape;
}
bool broadcasts_to(const Tensor& x, const Shape& shape) {
  return !x.defined() ||
         (x.rank() <= shape.rank() && broadcast(kAttention, x.shape(), shape) == shape);
}

// The kernel takes up to two leading axes in float32 or float64; the composite takes the rest, and
// says what is wrong.
bool fits_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  const auto fits = [&](const Tensor& x) {
    return x.rank() >= 2 && x.rank() <= 4 && x.numel() > 0 && x.dtype() == q.dtype();
  };
  if (!fits(q) || !fits(k) || !fits(v) || (q.dtype() != float32 && q.dtype() != float64))
    return false;
  if (q.size(-1) != k.size(-1) || k.size(-2) != v.size(-2)) return false;
  if (!(o.dropout >= 0 && o.dropout <= 1)) return false;
  const Shape scores = scores_shape(q, k, v);
  if (scores_shape(q, k, k) != scores) return false;  // an axis that v alone has, weights have not
  return broadcasts_to(o.keep.tensor(), scores) && broadcasts_to(o.bias.tensor(), scores) &&
         (!o.bias.defined() || o.bias.tensor().dtype() == q.dtype());
}

// The last axis adjacent, as the kernel reads it.
Tensor with_unit_rows(const Tensor& x) {
  return x.strides()[3] == 1 || x.size(3) == 1 ? x.detach() : contiguous(x.detach());
}
kernels::HeadStrides head_strides(const Tensor& x) {
  return {x.strides()[0], x.strides()[1], x.strides()[2]};
}
// Of a tensor that broadcasts to [B, H, Tq, Tk].
kernels::ScoreStrides score_strides(const Tensor& x) {
  const auto axis = [&](int i) {
    const int own = x.rank() - 4 + i;
    return own < 0 || x.shape()[own] == 1 ? 0 : x.strides()[own];
  };
  return {axis(0), axis(1), axis(2), axis(3)};
}

// One call: q, k, v [B, H, T, d], and what its backward has to know.
struct Call {
  AttentionOptions options;
  std::optional<Captured> keep;
  std::uint64_t key;
  double scale;
  Tensor lse;  // [B, H, Tq]
};

struct Heads {
  Tensor q, k, v, bias;
  Heads(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const Tensor& b)
      : q(with_unit_rows(q_in)), k(with_unit_rows(k_in)), v(with_unit_rows(v_in)), bias(b) {}
  Tensor empty_scores() const {
    return empty({q.size(0), q.size(1), q.size(2), k.size(2)}, q.dtype());
  }
};

template <class T>
kernels::Attention<T> arguments(const Heads& h, const Tensor& out, const Call& call) {
  kernels::Attention<T> a;
  a.batch = h.q.size(0), a.heads = h.q.size(1), a.tq = h.q.size(2), a.tk = h.k.size(2);
  a.d = h.q.size(3), a.d_value = h.v.size(3);
  a.q = h.q.data<T>(), a.k = h.k.data<T>(), a.v = h.v.data<T>();
  a.out = out.mutable_data<T>(), a.lse = call.lse.mutable_data<T>();
  a.q_at = head_strides(h.q), a.k_at = head_strides(h.k), a.v_at = head_strides(h.v);
  a.out_at = head_strides(out);
  a.scale = call.scale, a.causal = call.options.causal;
  a.causal_offset = first_query(a.tq, a.tk, call.options.alignment);
  if (call.keep) {
    const Tensor& keep = call.keep->get();
    a.keep = keep.data<bool>(), a.keep_at = score_strides(keep);
  }
  if (h.bias.defined()) a.bias = h.bias.data<T>(), a.bias_at = score_strides(h.bias);
  a.dropout = call.options.dropout, a.dropout_key = call.key;
  return a;
}

// Memory for what somebody watches.
template <class T>
T* room(Tensor& x, const AttentionWatch::Observer& see, const Heads& h) {
  if (!see) return nullptr;
  x = h.empty_scores();
  return x.mutable_data<T>();
}
void show(const Tensor& x, const AttentionWatch::Observer& see) {
  if (see) see(x);
}

// Also writes call.lse.
Tensor forward(const Heads& h, Call& call) {
  const std::int64_t batch = h.q.size(0), heads = h.q.size(1), tq = h.q.size(2);
  // [B, T, H, d_value] in memory, seen as [B, H, T, d_value]: what merging the heads wants.
  Tensor out = permute(empty({batch, tq, heads, h.v.size(3)}, h.q.dtype()), {0, 2, 1, 3});
  call.lse = empty({batch, heads, tq}, h.q.dtype());
  const AttentionWatch& watch = call.options.watch;
  Tensor raw_scores, scores, pattern, dropped;
  dispatch_floating(h.q.dtype(), kAttention, [&]<class T> {
    if constexpr (!std::is_same_v<T, Dual>) {
      auto a = arguments<T>(h, out, call);
      a.raw_scores = room<T>(raw_scores, watch.raw_scores, h);
      a.scores = room<T>(scores, watch.scores, h);
      a.pattern = room<T>(pattern, watch.pattern, h);
      a.dropped = room<T>(dropped, watch.dropped, h);
      kernels::simd::attention(a);
    }
  });
  show(raw_scores, watch.raw_scores), show(scores, watch.scores);
  show(pattern, watch.pattern), show(dropped, watch.dropped);
  return out;
}

Grads backward(const Vjp& v, const Call& call) {
  const Heads h(v.input(0), v.input(1), v.input(2), v.input(3));
  const Tensor grad_out = with_unit_rows(v.grad), out = v.output();
  // [B, T, H, d] in memory, as the projections' gradients want them.
  const auto like = [](const Tensor& x) {
    return permute(empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.dtype()), {0, 2, 1, 3});
  };
  const Tensor dq = like(h.q), dk = like(h.k), dv = like(h.v);
  const Tensor dbias = v.needs(3) ? empty(h.bias.shape(), h.bias.dtype()) : Tensor();
  const AttentionWatch& watch = call.options.watch;
  Tensor dscores, dpattern, ddropped;
  dispatch_floating(out.dtype(), kAttention, [&]<class T> {
    if constexpr (!std::is_same_v<T, Dual>) {
      kernels::AttentionGrads<T> g;
      g.grad_out = grad_out.data<T>(), g.grad_out_at = head_strides(grad_out);
      g.dq = dq.mutable_data<T>(), g.dq_at = head_strides(dq);
      g.dk = dk.mutable_data<T>(), g.dk_at = head_strides(dk);
      g.dv = dv.mutable_data<T>(), g.dv_at = head_strides(dv);
      if (dbias.defined()) {
        g.dbias = dbias.mutable_data<T>(), g.dbias_at = score_strides(dbias);
        g.dbias_size = dbias.numel();
      }
      g.dscores =
          room<T>(dscores, watch.scores_grad ? watch.scores_grad : watch.raw_scores_grad, h);
      g.dpattern = room<T>(dpattern, watch.pattern_grad, h);
      g.ddropped = room<T>(ddropped, watch.dropped_grad, h);
      kernels::simd::attention_backward(arguments<T>(h, out, call), g);
    }
  });
  show(dscores, watch.scores_grad), show(dpattern, watch.pattern_grad);
  show(ddropped, watch.dropped_grad);
  // A bias and a mask alone stand between them, and masked places have gradient 0 on either side.
  show(dscores, watch.raw_scores_grad);
  return {dq, dk, dv, dbias};
}

// q, k, v [B, H, T, d] of one B and H; rows: [..., Tq] as the caller counts queries.
Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
             const Shape& rows) {
  const auto call = std::allocate_shared<Call>(PoolAllocator<Call>());
  call->options = options;
  call->options.generator = nullptr;  // drawn from, and never again
  if (options.keep.defined()) call->keep.emplace(kAttention, options.keep.tensor());
  call->key = attention_dropout_key(options);
  call->scale = options.scale.value_or(1 / std::sqrt(double(q.size(-1))));
  const Tensor bias = options.bias.tensor();
  call->options.bias = {};  // the graph keeps it
  const Tensor out = forward(Heads(q, k, v, bias), *call);
  if (options.fully_masked == FullyMasked::kError)
    refuse_rows_of_nothing(reshape(eq(call->lse, -kInf), rows));
  // Values are seen once; gradients by whichever backward runs.
  AttentionWatch& watch = call->options.watch;
  watch.raw_scores = watch.scores = watch.pattern = watch.dropped = {};
  return record(
      kAttention, {q, k, v, bias}, out,
      [call](Args t) {
        AttentionOptions o = call->options;
        if (call->keep) o.keep = KeepMask(call->keep->get());
        return attention_definition(t[0], t[1], t[2], t[3], o, call->key).output;
      },
      [call](const Vjp& g) { return backward(g, *call); });
}

// The same for fewer or broadcast leading axes. Whoever watches sees the axes of the arguments.
Tensor fused_as_heads(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options) {
  const Shape scores = scores_shape(q, k, v);
  Shape lead = scores.sub(0, scores.rank() - 2);
  while (lead.rank() < 2) lead.insert(0, 1);
  const auto heads = [&](const Tensor& x) {
    return expand(x, {lead[0], lead[1], x.size(-2), x.size(-1)});
  };
  for (AttentionWatch::Observer* see : options.watch.all())
    if (*see) *see = [see = *see, scores](const Tensor& x) { see(reshape(x, scores)); };
  Tensor out = fused(heads(q), heads(k), heads(v), options, scores.sub(0, scores.rank() - 1));
  while (out.rank() > scores.rank()) out = squeeze(out, 0);
  return out;
}

}  // namespace

std::string_view attention_composite_reason(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const AttentionOptions& options) {
  static_assert(kernels::kMaxHead == 256);
  const auto wide = [](const Tensor& x) { return x.rank() > 0 && x.size(-1) > kernels::kMaxHead; };
  if (!kernels::simd_runs()) return "no SIMD kernels";
  if (options.on_raw_scores || options.on_scores || options.on_pattern || options.on_dropped)
    return "scores or weights replaced";
  if (options.soft_cap != 0) return "soft cap";
  if (options.fully_masked == FullyMasked::kUniform) return "uniform rows where all is masked";
  if (wide(q) || wide(v)) return "heads wider than 256";
  return fits_kernel(q, k, v, options) ? "" : "shapes and dtypes that the kernel does not take";
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  if (!attention_composite_reason(q, k, v, options).empty())
    return attention_with_weights(q, k, v, options).output;
  const bool heads = q.rank() == 4 && k.shape().sub(0, 2) == q.shape().sub(0, 2) &&
                     v.shape().sub(0, 2) == q.shape().sub(0, 2) && k.rank() == 4 && v.rank() == 4;
  return heads ? fused(q, k, v, options, q.shape().sub(0, 3)) : fused_as_heads(q, k, v, options);
}

}  // namespace heed::autograd
