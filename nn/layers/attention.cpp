// MultiHeadAttention: options, initial weights and forward pass, and the weights by head.
#include "nn/layers/attention.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "nn/layers/init.h"

namespace heed::nn {

using namespace autograd;

namespace {

using Options = MultiHeadAttention::Options;

// Splits a tensor along an axis on which the rows of q come first, then the rows of k, then the
// rows of v. An undefined tensor gives undefined tensors.
std::array<Tensor, 3> unpack_rows(const Tensor& packed, const Options& o, int axis = 0) {
  if (!packed.defined()) return {};
  const Index q = o.heads * o.d_head, k = q + o.kv_heads * o.d_head;
  return {slice(packed, axis, 0, q), slice(packed, axis, q, k),
          slice(packed, axis, k, packed.size(axis))};
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

MultiHeadAttention::Options MultiHeadAttention::Options::checked() const {
  constexpr std::string_view kName = "MultiHeadAttention";
  Options o = *this;
  check<ValueError>(o.d_model > 0 && o.heads > 0 && o.d_head >= 0 && o.d_value >= 0, kName,
                    "needs `d_model` > 0, `heads` > 0, `d_head` >= 0 and `d_value` >= 0, got ",
                    o.d_model, ", ", o.heads, ", ", o.d_head, ", ", o.d_value);
  check<ValueError>(o.d_head > 0 || o.d_model % o.heads == 0, kName, "`d_model` ", o.d_model,
                    " is not divisible by `heads` ", o.heads,
                    "; choose a multiple, or set `d_head`");
  if (o.d_head == 0) o.d_head = o.d_model / o.heads;
  if (o.d_value == 0) o.d_value = o.d_head;
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  check<ValueError>(o.kv_heads > 0 && o.heads % o.kv_heads == 0, kName,
                    "`kv_heads` needs 0 or a positive divisor of `heads` ", o.heads, ", got ",
                    o.kv_heads);
  o.out_bias = o.out_bias.value_or(o.bias);
  check<DTypeError>(o.dtype == float32 || o.dtype == float64, kName,
                    "needs `dtype` float32 or float64, got ", o.dtype);
  check<ValueError>(!o.rope || o.d_head % 2 == 0, kName,
                    "RoPE needs an even `d_head` (by default `d_model` / `heads`), got ", o.d_head);
  check<ValueError>(o.dropout >= 0 && o.dropout < 1, kName, "needs `dropout` in [0, 1), got ",
                    o.dropout);
  check<ValueError>(o.window >= 0, kName, "needs `window` >= 0, got ", o.window);
  check<ValueError>(o.soft_cap >= 0 && std::isfinite(o.soft_cap), kName,
                    "needs a finite `soft_cap` >= 0, got ", o.soft_cap);
  check<ValueError>(!autograd::rounds_to_zero(o.soft_cap, o.dtype), kName, "`soft_cap` ",
                    o.soft_cap, " is rounded to 0 in ", o.dtype, "; needs 0 or at least 1e-37");
  const double* factor = std::get_if<double>(&o.scale);
  check<ValueError>(!factor || std::isfinite(*factor), kName, "needs a finite `scale`, got ",
                    factor ? *factor : 0);
  return o;
}

MultiHeadAttention::MultiHeadAttention(const Options& given, Generator& g)
    : options(given.checked()) {
  const Options& o = options;
  // The weights are drawn in the order of PyTorch. First comes out_proj, which is a Linear: its
  // bias is drawn and then set to 0. Then come the weights of q, k and v.
  const Linear out(
      {.in = o.heads * o.d_value, .out = o.d_model, .bias = *o.out_bias, .dtype = o.dtype}, g);
  if (out.bias.defined()) init::zeros(out.bias);
  weights.out_proj_weight = out.weight, weights.out_proj_bias = out.bias;
  const Index rows = o.heads * o.d_head + o.kv_heads * (o.d_head + o.d_value);
  weights.in_proj_weight = empty({rows, o.d_model}, o.dtype).requires_grad_();
  init::xavier_uniform(weights.in_proj_weight, g);
  if (o.bias) weights.in_proj_bias = zeros({rows}, o.dtype).requires_grad_();
  if (o.qk_norm)
    for (std::optional<RMSNorm>* norm : {&q_norm, &k_norm})
      norm->emplace(RMSNorm::Options{.dim = o.d_head, .dtype = o.dtype});
}

Tensor repeat_heads(const Tensor& x, Index heads) {
  const Index kv_heads = x.size(1), group = heads / kv_heads;
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
}

AttentionOptions MultiHeadAttention::attention_options(const ForwardContext& ctx) const {
  // The op attention() applies the causal mask, the window and the keep-mask. Its definition is in
  // autograd/ops/attention_with_weights.cpp.
  const Options& o = options;
  AttentionOptions how{.scale = scale(),
                       .soft_cap = o.soft_cap,
                       .causal = o.causal,
                       .window = o.window,
                       .keep = ctx.keep,
                       .bias = ctx.bias};
  if (ctx.training) how.dropout = o.dropout, how.generator = ctx.generator;
  return how;
}

MultiHeadAttention::QKV MultiHeadAttention::project(const Tensor& query, const Tensor& key,
                                                    const Tensor& value) const {
  const Options& o = options;
  const auto heads_of = [](const Tensor& y, Index heads) {
    return reshape(y, {y.size(0), y.size(1), heads, y.size(2) / heads});
  };
  if (!grad_enabled() && query.is_same(key) && key.is_same(value)) {
    const Tensor y = linear(query, weights.in_proj_weight, weights.in_proj_bias);
    const auto [q, k, v] = unpack_rows(y, o, 2);
    return {heads_of(q, o.heads), heads_of(k, o.kv_heads), heads_of(v, o.kv_heads)};
  }
  // If gradients are enabled, three products are computed, and not one product that is sliced into
  // three parts. The backward pass of the slices would pad three gradients with zeros and sum them.
  // The results have the same bits.
  const auto weight = unpack_rows(weights.in_proj_weight, o);
  const auto bias = unpack_rows(weights.in_proj_bias, o);
  return {heads_of(linear(query, weight[0], bias[0]), o.heads),
          heads_of(linear(key, weight[1], bias[1]), o.kv_heads),
          heads_of(linear(value, weight[2], bias[2]), o.kv_heads)};
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
  if (options.rope) {
    // The queries have the positions that the causal mask assumes: those of the last keys.
    const Index cached = ctx.cache ? ctx.cache->length() : 0;
    const Index ahead = options.causal ? k.size(2) - q.size(2) : 0;
    q = rope(q, {.offset = cached + std::max<Index>(ahead, 0)});
    k = rope(k, {.offset = cached + std::max<Index>(-ahead, 0)});
  }
  if (ctx.cache) {
    const KVCache::KV all = ctx.cache->append(ctx.layer(), k, v);
    k = all.k, v = all.v;
  }
  k = repeat_heads(k, options.heads), v = repeat_heads(v, options.heads);
  AttentionOptions how = attention_options(ctx);
  const AttentionHooks hooks = ctx.probe ? probe_hooks(ctx) : AttentionHooks();
  if (ctx.probe) how.hooks = &hooks;
  // heads_first() is its own inverse, so z has shape [B, T, H, d].
  const Tensor z = ctx.at("hook_z", heads_first(attention(q, k, v, how)));
  const Tensor joined = reshape(z, {z.size(0), z.size(1), options.heads * options.d_value});
  Tensor out = linear(joined, weights.out_proj_weight, weights.out_proj_bias);
  ctx.end();
  return out;
}

HeadWeights by_head(const AttentionWeights& weights, const Options& o) {
  const auto per_head = [](const Tensor& rows, Index heads) {  // [H d, D] -> [H, D, d]
    return mT(reshape(rows, {heads, rows.size(0) / heads, rows.size(1)}));
  };
  const auto per_head_bias = [](const Tensor& bias, Index heads) {  // [H d] -> [H, d]
    return bias.defined() ? reshape(bias, {heads, bias.size(0) / heads}) : bias;
  };
  const auto [q, k, v] = unpack_rows(weights.in_proj_weight, o);
  const auto [q_bias, k_bias, v_bias] = unpack_rows(weights.in_proj_bias, o);
  const Tensor out = reshape(weights.out_proj_weight, {o.d_model, o.heads, o.d_value});
  return {.W_Q = per_head(q, o.heads),
          .W_K = per_head(k, o.kv_heads),
          .W_V = per_head(v, o.kv_heads),
          .W_O = permute(out, {1, 2, 0}),
          .b_Q = per_head_bias(q_bias, o.heads),
          .b_K = per_head_bias(k_bias, o.kv_heads),
          .b_V = per_head_bias(v_bias, o.kv_heads),
          .b_O = weights.out_proj_bias};
}

AttentionWeights packed(const HeadWeights& h) {
  const auto rows = [](const Tensor& w) {  // [H, D, d] -> [H d, D]
    return reshape(mT(w), {w.size(0) * w.size(2), w.size(1)});
  };
  const auto flat = [](const Tensor& bias) { return reshape(bias, {-1}); };
  AttentionWeights w;
  w.in_proj_weight = cat({rows(h.W_Q), rows(h.W_K), rows(h.W_V)}, 0);
  if (h.b_Q.defined()) w.in_proj_bias = cat({flat(h.b_Q), flat(h.b_K), flat(h.b_V)}, 0);
  w.out_proj_weight =
      reshape(permute(h.W_O, {2, 0, 1}), {h.W_O.size(2), h.W_O.size(0) * h.W_O.size(1)});
  w.out_proj_bias = h.b_O;
  return w;
}

}  // namespace heed::nn
