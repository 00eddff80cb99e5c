// Forward pass of MultiHeadAttention: checks of the inputs, attention sink and sites of a probe.
#include "nn/layers/attention.h"

#include <algorithm>
#include <cmath>

#include "nn/layers/kv_cache.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Inserts a row of zeros before the keys (or values) x [B, H, Tk, d]. This row is the key (or
// value) of the attention sink. The product of any query and this key is 0, so that the score of
// the sink equals its score bias.
Tensor with_zeros_in_front(const Tensor& x, DType dtype) {
  const Shape one{x.size(0), x.size(1), 1, x.size(3)};
  return cat({expand(zeros({1, 1, 1, 1}, dtype), one), x}, 2);
}

// Returns x [..., 1 + Tk] without its first column, which belongs to the attention sink.
Tensor without_sink(const Tensor& x) { return slice(x, -1, 1, x.size(-1)); }

// Returns hooks for an attention call with a sink. They pass tensors without the column of the sink
// to the given hooks. If a given hook replaces such a tensor, the column of the sink does not
// change.
AttentionHooks without_sink(AttentionHooks hooks) {
  for (AttentionHooks::Observer* observer : hooks.all())
    if (*observer) *observer = [f = *observer](const Tensor& x) { f(contiguous(without_sink(x))); };
  for (auto* replace :
       {&hooks.on_raw_scores, &hooks.on_scores, &hooks.on_pattern, &hooks.on_dropped})
    if (*replace)
      *replace = [f = *replace](const Tensor& x) {
        return cat({slice(x, -1, 0, 1), f(without_sink(x))}, -1);
      };
  return hooks;
}

// Returns the hooks for ctx.probe. If the probe records scores or weights, the fused kernel also
// writes these to memory. If the probe replaces them, attention is computed from public ops
// instead.
AttentionHooks probe_hooks(const ForwardContext& ctx) {
  AttentionHooks h;
  const auto site = [&](const char* name, AttentionHooks::Replace& replace,
                        AttentionHooks::Observer& value, AttentionHooks::Observer& gradient) {
    Probe& probe = *ctx.probe;
    const std::string full = ctx.site(name);
    if (probe.replaces(full))
      replace = [&probe, full](const Tensor& x) { return probe.at(full, x); };
    else
      value = probe.value_observer(full), gradient = probe.gradient_observer(full);
  };
  site("hook_attn_scores_raw", h.on_raw_scores, h.raw_scores, h.raw_scores_grad);
  site("hook_attn_scores", h.on_scores, h.scores, h.scores_grad);
  site("hook_pattern", h.on_pattern, h.pattern, h.pattern_grad);
  site("hook_pattern_dropped", h.on_dropped, h.dropped, h.dropped_grad);
  return h;
}

}  // namespace

Tensor repeat_heads(const Tensor& x, std::int64_t heads) {
  const std::int64_t kv_heads = x.size(1), group = heads / kv_heads;
  if (group == 1) return x;
  const Shape repeated{x.size(0), kv_heads, group, x.size(2), x.size(3)};
  return reshape(expand(unsqueeze(x, 2), repeated), {x.size(0), heads, x.size(2), x.size(3)});
}

double MultiHeadAttention::scale() const {
  if (const double* number = std::get_if<double>(&options.scale)) return *number;
  switch (std::get<ScaleRule>(options.scale)) {
    case ScaleRule::kInvSqrtHead:
      return 1 / std::sqrt(double(options.d_head));
    case ScaleRule::kInvHead:
      return 1 / double(options.d_head);
    case ScaleRule::kInvSqrtModel:
      return 1 / std::sqrt(double(options.d_model));
    case ScaleRule::kNone:
    case ScaleRule::kLearned:  // forward() multiplies q by the learned scale
      break;
  }
  return 1;
}

std::string_view MultiHeadAttention::composite_reason() const {
  const Options& o = options;
  const Tensor q = zeros({1, 1, 1, o.d_head}, o.dtype), v = zeros({1, 1, 1, o.d_value}, o.dtype);
  return attention_composite_reason(q, q, v, attention_options({}));
}

void MultiHeadAttention::check_inputs(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const ForwardContext& ctx) const {
  constexpr std::string_view kName = "MultiHeadAttention";
  for (const Tensor* x : {&query, &key, &value})
    check(x->rank() == 3 && x->size(-1) == options.d_model, kName,
          "needs [B, T, d_model = ", options.d_model, "], got ", x->shape());
  check(query.size(0) == key.size(0), kName, "query ", query.shape(), " and key ", key.shape(),
        " differ in batch size");
  check(key.shape() == value.shape(), kName, "key ", key.shape(), " and value ", value.shape(),
        " differ: each key needs one value");
  const bool self = query.is_same(key) && key.is_same(value);
  check<ValueError>(!ctx.cache || (options.causal && self && !ctx.training), kName,
                    "a KV cache needs causal self-attention outside training, got ",
                    ctx.training     ? "training"
                    : options.causal ? "cross attention"
                                     : "attention without a causal mask");
  check<ValueError>(!ctx.cache || options.alignment == CausalAlignment::kBottomRight, kName,
                    "a KV cache needs the alignment kBottomRight, got kTopLeft");
}

AttentionOptions MultiHeadAttention::attention_options(const ForwardContext& ctx) const {
  // The op attention() applies the causal mask, the window and the keep-mask. Its definition is in
  // autograd/ops/attention_with_weights.cpp.
  const Options& o = options;
  AttentionOptions how{.scale = scale(),
                       .soft_cap = o.soft_cap,
                       .causal = o.causal,
                       .window = o.window,
                       .alignment = o.alignment,
                       .keep = ctx.keep,
                       .bias = ctx.bias,
                       .fully_masked = o.fully_masked};
  if (ctx.training) how.dropout = o.dropout, how.generator = ctx.generator;
  return how;
}

// Computes attention, with the sink if the options have one. Takes q [B, H, Tq, d_head],
// k [B, H, Tk, d_head] and v [B, H, Tk, d_value]. Returns shape [B, H, Tq, d_value].
Tensor MultiHeadAttention::attend(const Tensor& q, const Tensor& k, const Tensor& v,
                                  AttentionOptions how) const {
  if (options.sink == Sink::kNone) return attention(q, k, v, how);
  const std::int64_t tq = q.size(2), tk = k.size(2);
  // The sink is an additional first key. With the alignment kBottomRight, the additional key shifts
  // the causal mask by one column, so that each query with at least one unmasked key can also read
  // the sink. With kTopLeft, the mask would not shift. So the causal mask of the Tk keys is made
  // here, and the sink is added to it below.
  if (how.causal && how.alignment == CausalAlignment::kTopLeft) {
    how.keep = how.keep & KeepMask::causal(tq, tk, how.alignment);
    how.causal = false;
  }
  if (how.window > 0 && how.window < std::max(tq, tk))
    how.keep = how.keep & KeepMask::sliding_window(tq, tk, how.window, how.alignment);
  how.window = 0;  // a window in the kernel would hide the sink
  how.keep = how.keep.with_sink_column(tk);
  how.bias = how.bias.with_sink_column(sink_logit, tk);
  const AttentionHooks hooks = how.hooks ? without_sink(*how.hooks) : AttentionHooks();
  if (how.hooks) how.hooks = &hooks;
  return attention(q, with_zeros_in_front(k, options.dtype), with_zeros_in_front(v, options.dtype),
                   how);
}

Tensor MultiHeadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const ForwardContext& ctx) const {
  check_inputs(query, key, value, ctx);
  const auto heads_first = [](const Tensor& x) { return permute(x, {0, 2, 1, 3}); };
  const QKV p = project(query, key, value);
  Tensor q = heads_first(ctx.at("hook_q", p.q));  // [B, T, H, d] -> [B, H, T, d]
  Tensor k = heads_first(ctx.at("hook_k", p.k));
  Tensor v = heads_first(ctx.at("hook_v", p.v));
  if (q_norm) q = (*q_norm)(q), k = (*k_norm)(k);
  if (head_scale.defined()) q = q * reshape(head_scale, {options.heads, 1, 1});
  if (options.rope) {
    // The queries have the positions that the causal mask assumes. With the alignment kBottomRight,
    // these are the positions of the last keys.
    const std::int64_t cached = ctx.cache ? ctx.cache->position() : 0;
    const std::int64_t ahead =
        options.causal ? first_query(q.size(2), k.size(2), options.alignment) : 0;
    q = rope(q, {.offset = cached + std::max<std::int64_t>(ahead, 0)});
    k = rope(k, {.offset = cached + std::max<std::int64_t>(-ahead, 0)});
  }
  if (ctx.cache) {
    const KVCache::KV all = ctx.cache->append(ctx.layer(), k, v);
    k = all.k, v = all.v;
  }
  k = repeat_heads(k, options.heads), v = repeat_heads(v, options.heads);
  AttentionOptions how = attention_options(ctx);
  const AttentionHooks hooks = ctx.probe ? probe_hooks(ctx) : AttentionHooks();
  if (ctx.probe) how.hooks = &hooks;
  const Tensor out = attend(q, k, v, how);
  // heads_first() is its own inverse, so z has shape [B, T, H, d].
  const Tensor z = ctx.at("hook_z", heads_first(out));
  ctx.end();
  return merge_heads(z);
}

}  // namespace heed::nn
