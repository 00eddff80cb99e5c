#include "nn/layers/attention.h"

#include <algorithm>
#include <cmath>

#include "nn/layers/kv_cache.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Each of Hkv heads of x [B, Hkv, T, d] stands for H / Hkv heads -> [B, H, T, d].
Tensor repeat_heads(const Tensor& x, std::int64_t heads) {
  const std::int64_t own = x.size(1), group = heads / own;
  if (group == 1) return x;
  const Shape repeated{x.size(0), own, group, x.size(2), x.size(3)};
  return reshape(expand(unsqueeze(x, 2), repeated), {x.size(0), heads, x.size(2), x.size(3)});
}

// A key in front of zeros with a value of zeros: the sink's place, whose score is its bias.
Tensor behind_zeros(const Tensor& x, DType dtype) {
  const Shape one{x.size(0), x.size(1), 1, x.size(3)};
  return cat({expand(zeros({1, 1, 1, 1}, dtype), one), x}, 2);
}

// The columns of scores and weights behind the sink's are what others see and replace.
Tensor without_sink(const Tensor& x) { return slice(x, -1, 1, x.size(-1)); }
void hide_sink(AttentionOptions& how) {
  for (AttentionWatch::Observer* see : how.watch.all())
    if (*see) *see = [see = *see](const Tensor& x) { see(contiguous(without_sink(x))); };
  for (auto* replace : {&how.on_raw_scores, &how.on_scores, &how.on_pattern, &how.on_dropped})
    if (*replace)
      *replace = [f = *replace](const Tensor& x) {
        return cat({slice(x, -1, 0, 1), f(without_sink(x))}, -1);
      };
}

// To look at scores and weights, the kernel that trains writes them out; to replace them, the
// composite runs.
void probe_weights(AttentionOptions& how, const Pass& pass) {
  Probe& probe = *pass.probe;
  AttentionWatch& w = how.watch;
  const auto site = [&](const char* name, AttentionOptions::Replace& replace,
                        AttentionWatch::Observer& value, AttentionWatch::Observer& gradient) {
    const std::string full = pass.prefix + name;
    if (probe.replaces(full))
      replace = [&probe, full](const Tensor& x) { return probe.at(full, x); };
    else
      value = probe.value_observer(full), gradient = probe.gradient_observer(full);
  };
  site("hook_attn_scores_raw", how.on_raw_scores, w.raw_scores, w.raw_scores_grad);
  site("hook_attn_scores", how.on_scores, w.scores, w.scores_grad);
  site("hook_pattern", how.on_pattern, w.pattern, w.pattern_grad);
  site("hook_pattern_dropped", how.on_dropped, w.dropped, w.dropped_grad);
}

}  // namespace

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
    case ScaleRule::kLearned:  // q is multiplied instead
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
                                      const Pass& pass) const {
  constexpr std::string_view kName = "MultiHeadAttention";
  for (const Tensor* x : {&query, &key, &value})
    check(x->rank() == 3 && x->size(-1) == options.d_model, kName,
          "needs [B, T, d_model = ", options.d_model, "], got ", x->shape());
  check(query.size(0) == key.size(0), kName, "query ", query.shape(), " and key ", key.shape(),
        " differ in batch size");
  check(key.shape() == value.shape(), kName, "key ", key.shape(), " and value ", value.shape(),
        " differ: each key needs one value");
  const bool self = query.is_same(key) && key.is_same(value);
  check<ValueError>(!pass.cache || (options.causal && self && !pass.training), kName,
                    "a KV cache serves causal self-attention outside training, not ",
                    pass.training    ? "training"
                    : options.causal ? "cross attention"
                                     : "attention to later tokens");
  check<ValueError>(!pass.cache || options.alignment == CausalAlignment::kBottomRight, kName,
                    "a KV cache needs causality aligned at the bottom right");
}

AttentionOptions MultiHeadAttention::attention_options(const Pass& pass) const {
  // attention() applies causality, window and keep-mask: autograd/ops/attention_with_weights.cpp.
  const Options& o = options;
  AttentionOptions how{.scale = scale(),
                       .soft_cap = o.soft_cap,
                       .causal = o.causal,
                       .window = o.window,
                       .alignment = o.alignment,
                       .keep = pass.keep,
                       .bias = pass.bias,
                       .fully_masked = o.fully_masked};
  if (pass.training) how.dropout = o.dropout, how.generator = pass.generator;
  if (pass.probe) probe_weights(how, pass);
  return how;
}

// q [B, H, Tq, d], k and v [B, H, Tk, d] -> [B, H, Tq, d_value]
Tensor MultiHeadAttention::attend(const Tensor& q, const Tensor& k, const Tensor& v,
                                  AttentionOptions how) const {
  if (options.sink == Sink::kNone) return attention(q, k, v, how);
  const std::int64_t tq = q.size(2), tk = k.size(2);
  // Aligned at the bottom right, causality lets every query that sees a key see the one in front.
  if (how.causal && how.alignment == CausalAlignment::kTopLeft) {
    how.keep = how.keep & KeepMask::causal(tq, tk, how.alignment);
    how.causal = false;
  }
  if (how.window > 0 && how.window < std::max(tq, tk))
    how.keep = how.keep & KeepMask::sliding_window(tq, tk, how.window, how.alignment);
  how.window = 0;  // it would hide the key in front
  how.keep = how.keep.behind_sink(tk);
  how.bias = how.bias.behind_sink(sink_logit, tk);
  hide_sink(how);
  return attention(q, behind_zeros(k, options.dtype), behind_zeros(v, options.dtype), how);
}

Tensor MultiHeadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const Pass& pass) const {
  check_inputs(query, key, value, pass);
  const auto heads_first = [](const Tensor& x) { return permute(x, {0, 2, 1, 3}); };
  const QKV p = project(query, key, value);
  Tensor q = heads_first(pass.at("hook_q", p.q));  // [B, T, H, d] -> [B, H, T, d]
  Tensor k = heads_first(pass.at("hook_k", p.k));
  Tensor v = heads_first(pass.at("hook_v", p.v));
  if (q_norm) q = (*q_norm)(q), k = (*k_norm)(k);
  if (head_scale.defined()) q = q * reshape(head_scale, {options.heads, 1, 1});
  if (options.rope) {
    // Queries stand where the causal mask has them: at the bottom right beside the last keys.
    const std::int64_t cached = pass.cache ? pass.cache->position() : 0;
    const std::int64_t ahead =
        options.causal ? first_query(q.size(2), k.size(2), options.alignment) : 0;
    q = rope(q, {.offset = cached + std::max<std::int64_t>(ahead, 0)});
    k = rope(k, {.offset = cached + std::max<std::int64_t>(-ahead, 0)});
  }
  if (pass.cache) {
    const KVCache::KV all = pass.cache->append(pass.layer, k, v);
    k = all.k, v = all.v;
  }
  k = repeat_heads(k, options.heads), v = repeat_heads(v, options.heads);
  const Tensor seen = attend(q, k, v, attention_options(pass));
  const Tensor z = pass.at("hook_z", heads_first(seen));  // [B, T, H, d]
  pass.end();
  return merge_heads(z);
}

}  // namespace heed::nn
