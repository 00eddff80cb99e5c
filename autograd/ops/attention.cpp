// Scaled dot-product attention by a fused kernel with O(T) memory. The definition of the op is in
// autograd/ops/attention_with_weights.cpp. The definition also runs for arguments that the kernel
// does not support.
#include "autograd/kernels/simd/attention.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "autograd/graph/graph.h"
#include "autograd/kernels/simd/simd.h"
#include "autograd/ops/attention_with_weights.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

Samples attention_samples(SampleGen& g);
const Op kAttention({.name = "attention",
                     .saves = Saves::kBoth,
                     .samples = attention_samples,
                     .no_sizes = needs_axis()});

Shape leading_axes(const Tensor& x) { return x.shape().sub(0, x.rank() - 2); }

// Returns the shape to which the leading axes of q, k and v broadcast.
Shape leading_axes(const Tensor& q, const Tensor& k, const Tensor& v) {
  return broadcast(kAttention, broadcast(kAttention, leading_axes(q), leading_axes(k)),
                   leading_axes(v));
}
bool broadcasts_to(const Tensor& x, const Shape& shape) {
  return !x.defined() ||
         (x.rank() <= shape.rank() && broadcast(kAttention, x.shape(), shape) == shape);
}

// Returns true if the kernel supports these arguments. Otherwise attention() calls
// attention_with_weights(), which also reports invalid arguments.
bool fits_kernel(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& o) {
  const auto fits = [&](const Tensor& x) {
    return x.rank() >= 2 && x.numel() > 0 && x.dtype() == q.dtype();
  };
  if (!fits(q) || !fits(k) || !fits(v) || (q.dtype() != float32 && q.dtype() != float64))
    return false;
  if (q.size(-1) != k.size(-1) || k.size(-2) != v.size(-2)) return false;
  if (!(o.dropout >= 0 && o.dropout <= 1) || o.window < 0) return false;
  const Shape lead = leading_axes(q, k, v);
  if (leading_axes(q, k, k) != lead)
    return false;  // v has leading axes that the weights do not have
  const Shape scores = lead.joined({q.size(-2), k.size(-2)});
  return broadcasts_to(o.keep.tensor(), scores) && broadcasts_to(o.bias.tensor(), scores) &&
         (!o.bias.defined() || o.bias.tensor().dtype() == q.dtype());
}

// Returns x, or a copy in which the elements of the last axis are adjacent, as the kernel requires.
Tensor with_unit_rows(const Tensor& x) {
  return x.strides()[-1] == 1 || x.size(-1) == 1 ? x : detached_copy(x);
}
kernels::HeadStrides head_strides(const Tensor& x) {
  kernels::HeadStrides at;
  for (int i = 0; i < x.rank() - 2; ++i) at.lead[std::size_t(i)] = x.strides()[i];
  at.row = x.strides()[-2];
  return at;
}
// Returns the strides of a mask or bias x that broadcasts to `lead` leading axes and [Tq, Tk]. The
// stride of a repeated axis is 0.
kernels::ScoreStrides score_strides(const Tensor& x, int lead) {
  const auto axis = [&](int i) {
    const int own = x.rank() - lead - 2 + i;
    return own < 0 || x.shape()[own] == 1 ? 0 : x.strides()[own];
  };
  kernels::ScoreStrides at;
  for (int i = 0; i < lead; ++i) at.lead[std::size_t(i)] = axis(i);
  at.row = axis(lead), at.column = axis(lead + 1);
  return at;
}
// Returns an uninitialized tensor [..., H, T, d] that is stored as [..., T, H, d], because the
// projections and their gradients read it in that order.
Tensor empty_heads(Shape shape, DType dtype) {
  if (shape.rank() < 3) return empty(shape, dtype);
  std::swap(shape[-3], shape[-2]);
  return transpose(empty(shape, dtype), -3, -2);
}

// State of one call that the backward pass needs.
struct Call {
  AttentionOptions options;
  std::optional<AttentionHooks> hooks;
  std::optional<Captured> keep;
  std::uint64_t key;
  double scale;
  Tensor lse;  // float64 [2, ..., Tq]: log-sum-exp of each row of scores, and the rounding error of
               // this number

  const AttentionHooks& observers() const {
    static const AttentionHooks kNone;
    return hooks ? *hooks : kNone;
  }
};

// Tensors of one call in the form that the kernel reads. q, k, v [..., T, d] have the same leading
// axes.
struct Heads {
  Tensor q, k, v, bias;
  Heads(const Tensor& q_in, const Tensor& k_in, const Tensor& v_in, const Tensor& b)
      : q(with_unit_rows(q_in)), k(with_unit_rows(k_in)), v(with_unit_rows(v_in)), bias(b) {}
  int lead() const { return q.rank() - 2; }
  // Returns the shape [leading axes, Tq, columns].
  Shape rows(Index columns) const { return q.shape().with(-1, columns); }
};

// Returns the arguments of the kernel.
template <class T>
kernels::Attention<T> arguments(const Heads& h, const Tensor& out, const Call& call) {
  kernels::Attention<T> a;
  a.lead_axes = h.lead();
  std::copy_n(h.q.shape().begin(), h.lead(), a.lead.begin());
  a.tq = h.q.size(-2), a.tk = h.k.size(-2), a.d = h.q.size(-1), a.d_value = h.v.size(-1);
  a.causal = call.options.causal, a.window = call.options.window;
  if (call.keep) {
    const Tensor& keep = call.keep->get();
    a.keep = keep.data<bool>(), a.keep_at = score_strides(keep, h.lead());
  }
  a.q = h.q.data<T>(), a.k = h.k.data<T>(), a.v = h.v.data<T>();
  a.out = out.mutable_data<T>(), a.lse = call.lse.mutable_data<double>();
  a.q_at = head_strides(h.q), a.k_at = head_strides(h.k), a.v_at = head_strides(h.v);
  a.out_at = head_strides(out);
  a.scale = call.scale;
  if (h.bias.defined()) a.bias = h.bias.data<T>(), a.bias_at = score_strides(h.bias, h.lead());
  a.dropout = call.options.dropout, a.dropout_key = call.key;
  return a;
}

// If there is an observer, allocates x [..., Tq, Tk] and returns its memory, which the kernel
// fills. Otherwise returns null.
template <class T>
T* allocate_for(const AttentionHooks::Observer& observer, Tensor& x, const Heads& h) {
  if (!observer) return nullptr;
  x = empty(h.rows(h.k.size(-2)), h.q.dtype());
  return x.mutable_data<T>();
}
void notify(const AttentionHooks::Observer& observer, const Tensor& x) {
  if (observer) observer(x);
}

// Runs the kernel and the observers of values. Also writes call.lse.
Tensor forward(const Heads& h, Call& call) {
  Tensor out = empty_heads(h.rows(h.v.size(-1)), h.q.dtype());
  call.lse = empty(Shape{2}.joined(h.q.shape().without(-1)), float64);
  const AttentionHooks& hooks = call.observers();
  Tensor raw_scores, scores, pattern, dropped;
  dispatch_floating(h.q.dtype(), kAttention, [&]<class T> {
    if constexpr (is_real(kDTypeOf<T>)) {
      auto a = arguments<T>(h, out, call);
      a.raw_scores = allocate_for<T>(hooks.raw_scores, raw_scores, h);
      a.scores = allocate_for<T>(hooks.scores, scores, h);
      a.pattern = allocate_for<T>(hooks.pattern, pattern, h);
      a.dropped = allocate_for<T>(hooks.dropped, dropped, h);
      kernels::simd::attention(a);
    }
  });
  notify(hooks.raw_scores, raw_scores), notify(hooks.scores, scores);
  notify(hooks.pattern, pattern), notify(hooks.dropped, dropped);
  return out;
}

Grads backward(const Vjp& v, const Call& call) {
  const Heads h(v.input(0), v.input(1), v.input(2), v.input(3));
  const Tensor grad_out = with_unit_rows(v.grad), out = v.output();
  const auto like = [](const Tensor& x) { return empty_heads(x.shape(), x.dtype()); };
  const Tensor dq = like(h.q), dk = like(h.k), dv = like(h.v);
  const Tensor dbias = v.needs(3) ? empty(h.bias.shape(), h.bias.dtype()) : Tensor();
  const AttentionHooks& hooks = call.observers();
  Tensor dscores, dpattern, ddropped;
  dispatch_floating(out.dtype(), kAttention, [&]<class T> {
    if constexpr (is_real(kDTypeOf<T>)) {
      kernels::AttentionGrads<T> g;
      g.grad_out = grad_out.data<T>(), g.grad_out_at = head_strides(grad_out);
      g.dq = dq.mutable_data<T>(), g.dq_at = head_strides(dq);
      g.dk = dk.mutable_data<T>(), g.dk_at = head_strides(dk);
      g.dv = dv.mutable_data<T>(), g.dv_at = head_strides(dv);
      if (dbias.defined()) {
        g.dbias = dbias.mutable_data<T>(), g.dbias_at = score_strides(dbias, h.lead());
        g.dbias_size = dbias.numel();
      }
      g.dscores = allocate_for<T>(hooks.scores_grad ? hooks.scores_grad : hooks.raw_scores_grad,
                                  dscores, h);
      g.dpattern = allocate_for<T>(hooks.pattern_grad, dpattern, h);
      g.ddropped = allocate_for<T>(hooks.dropped_grad, ddropped, h);
      kernels::simd::attention_backward(arguments<T>(h, out, call), g);
    }
  });
  notify(hooks.scores_grad, dscores), notify(hooks.pattern_grad, dpattern);
  notify(hooks.dropped_grad, ddropped);
  // The scores are the raw scores plus a bias, except where masked. The gradient of both tensors is
  // 0 where masked, so their gradients are equal.
  notify(hooks.raw_scores_grad, dscores);
  return {dq, dk, dv, dbias};
}

// Runs fused attention and records it. q, k, v [..., T, d] have the same leading axes.
Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const auto call = std::allocate_shared<Call>(PoolAllocator<Call>());
  call->options = options;
  call->options.generator = nullptr;  // not needed later, because call->key is stored
  if (options.hooks) call->hooks = *options.hooks;
  call->options.hooks = nullptr;
  if (options.keep.defined()) call->keep.emplace(kAttention, options.keep.tensor());
  call->key = attention_dropout_key(options);
  call->scale = options.scale.value_or(1 / std::sqrt(double(q.size(-1))));
  const Tensor bias = options.bias.tensor();
  call->options.bias = {};  // the node stores the bias as an input
  const Tensor out = forward(Heads(q, k, v, bias), *call);
  // forward() has called the observers of values. They are removed, so that a later call of
  // attention_definition() does not call them again. The backward pass calls those of gradients.
  if (call->hooks)
    for (auto observer : {&AttentionHooks::raw_scores, &AttentionHooks::scores,
                          &AttentionHooks::pattern, &AttentionHooks::dropped})
      (*call->hooks).*observer = {};
  return record(
      kAttention, {q, k, v, bias}, out,
      [call](Args t) {
        AttentionOptions o = call->options;
        o.hooks = &call->observers();
        if (call->keep) o.keep = KeepMask(call->keep->get());
        return attention_definition(t[0], t[1], t[2], t[3], o, call->key).output;
      },
      [call](const Vjp& g) { return backward(g, *call); });
}

}  // namespace

std::string_view attention_composite_reason(const Tensor& q, const Tensor& k, const Tensor& v,
                                            const AttentionOptions& options) {
  static_assert(kernels::kMaxHead == 256 && kernels::kMaxLead == kMaxRank - 2);
  const auto wide = [](const Tensor& x) { return x.rank() > 0 && x.size(-1) > kernels::kMaxHead; };
  if (!kernels::simd_runs()) return "no SIMD kernels";
  if (options.hooks && options.hooks->replaces()) return "scores or weights replaced";
  if (options.soft_cap != 0) return "soft cap";
  if (options.fully_masked == FullyMasked::kUniform) return "uniform weights in fully masked rows";
  if (wide(q) || wide(v)) return "heads wider than 256";
  return fits_kernel(q, k, v, options) ? "" : "shapes or dtypes that the kernel does not support";
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  if (!attention_composite_reason(q, k, v, options).empty())
    return attention_with_weights(q, k, v, options).output;
  const Shape lead = leading_axes(q, k, v);
  const auto expanded = [&lead](const Tensor& x) {
    return leading_axes(x) == lead ? x : expand(x, lead.joined({x.size(-2), x.size(-1)}));
  };
  return fused(expanded(q), expanded(k), expanded(v), options);
}

namespace {

// Returns a function that calls attention with these options. Its inputs are q, k, v and, if there
// is a fourth one, the bias.
auto attention_with(const AttentionOptions& options, const AttentionHooks& hooks = {}) {
  return [options, hooks](Args t) {
    Generator fixed(7);  // new in every call, so that equal inputs give equal results
    AttentionOptions o = options;
    o.generator = &fixed;
    if (hooks.replaces()) o.hooks = &hooks;
    if (t.size() > 3) o.bias = ScoreBias(t[3]);
    return attention(t[0], t[1], t[2], o);
  };
}

// Returns q, k, v with d = 3, d_value = 2 and the leading axes `lead`.
std::vector<Tensor> qkv(SampleGen& g, const Shape& lead, Index tq, Index tk) {
  const auto draw = [&](Index rows, Index columns) {
    return g.normal(lead.joined({rows, columns}));
  };
  return {draw(tq, 3), draw(tk, 3), draw(tk, 2)};
}

// Appends a bias of the given shape to the inputs.
std::vector<Tensor> with_bias(SampleGen& g, std::vector<Tensor> inputs, const Shape& shape) {
  inputs.push_back(g.normal(shape));
  return inputs;
}

// Returns a mask for 3 queries and 3 keys. Query 1 may read no key, and no query may read key 1.
KeepMask some_keys() {
  return KeepMask(from_data(
      std::vector<bool>{true, false, true, false, false, false, true, false, false}, {3, 3}));
}

Samples samples_of_options(SampleGen& g) {
  const KeepMask keep = some_keys();
  const KeepMask nothing(full({3, 3}, 0, bool8));
  const Shape heads = {2, 2};
  return {{"plain", attention_with({}), qkv(g, heads, 2, 3)},
          {"causal", attention_with({.causal = true}), qkv(g, heads, 4, 4)},
          {"causal, rows without a key", attention_with({.scale = 0.3, .causal = true}),
           qkv(g, heads, 4, 2)},
          {"negative scale", attention_with({.scale = -0.7}), qkv(g, heads, 2, 2)},
          {"soft cap", attention_with({.scale = 2, .soft_cap = 1.5}), qkv(g, heads, 2, 3)},
          {"soft cap, causal, a row masked, bias",
           attention_with({.soft_cap = 0.8, .causal = true, .keep = keep}),
           with_bias(g, qkv(g, heads, 3, 3), {2, 3, 3})},
          {"a row masked, a key unread", attention_with({.keep = keep}), qkv(g, heads, 3, 3)},
          {"everything masked", attention_with({.keep = nothing}), qkv(g, heads, 3, 3)},
          {"everything masked, uniform",
           attention_with({.keep = nothing, .fully_masked = FullyMasked::kUniform}),
           qkv(g, heads, 3, 3)},
          {"a row masked, uniform, dropout",
           attention_with({.keep = keep, .fully_masked = FullyMasked::kUniform, .dropout = 0.3}),
           with_bias(g, qkv(g, {2}, 3, 3), {3})},
          {"padding", attention_with({.keep = KeepMask::padding(std::vector<Index>{3, 1}, 3)}),
           qkv(g, heads, 2, 3)},
          {"dropout", attention_with({.dropout = 0.4}), qkv(g, heads, 3, 3)},
          {"bias", attention_with({}), with_bias(g, qkv(g, heads, 3, 2), {2, 2, 3, 2})},
          {"bias per head", attention_with({.causal = true}),
           with_bias(g, qkv(g, heads, 3, 3), {2, 3, 3})},
          {"bias per key", attention_with({}), with_bias(g, qkv(g, heads, 2, 3), {3})},
          {"causal, keep, bias, dropout, a row masked",
           attention_with({.causal = true, .keep = keep, .dropout = 0.3}),
           with_bias(g, qkv(g, heads, 3, 3), {2, 1, 3, 3})},
          {"window", attention_with({.window = 2}), qkv(g, heads, 4, 5)},
          {"window, causal, bias", attention_with({.causal = true, .window = 2}),
           with_bias(g, qkv(g, heads, 4, 3), {4, 1})},
          {"rank 3", attention_with({.keep = keep}), with_bias(g, qkv(g, {2}, 3, 3), {2, 3, 1})},
          {"rank 2", attention_with({.dropout = 0.3}), qkv(g, {}, 2, 3)}};
}

Samples attention_samples(SampleGen& g) {
  Samples samples = samples_of_options(g);
  samples.push_back({"q, k and v of one shape",
                     attention_with({.causal = true, .dropout = 0.3}),
                     {g.normal({1, 2, 3, 3}), g.normal({1, 2, 3, 3}), g.normal({1, 2, 3, 3})}});
  // Two heads of queries share one head of keys.
  std::vector<Tensor> shared = qkv(g, {1, 2}, 2, 3);
  shared[1] = g.normal({1, 1, 3, 3});
  samples.push_back({"a shared key head", attention_with({}), shared});
  samples.push_back({"five axes", attention_with({.keep = some_keys(), .dropout = 0.3}),
                     with_bias(g, qkv(g, {2, 1, 2}, 3, 3), {2, 1, 1, 3, 3})});
  // If hooks replace values, attention() calls attention_with_weights().
  const auto through_tanh = [](const Tensor& x) { return tanh(x); };
  const auto squared = [](const Tensor& x) { return x * x; };
  samples.push_back(
      {"scores replaced", attention_with({}, {.on_scores = through_tanh}), qkv(g, {1, 2}, 2, 3)});
  samples.push_back({"raw scores and dropped weights replaced",
                     attention_with({.causal = true, .dropout = 0.3},
                                    {.on_raw_scores = through_tanh, .on_dropped = squared}),
                     qkv(g, {1, 2}, 3, 3)});
  return samples;
}

}  // namespace

}  // namespace heed::autograd
