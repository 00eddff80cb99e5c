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

// To look at scores and weights, the kernel that trains writes them out; to replace them, the
// composite runs.
void probe_weights(AttentionOptions& how, const Pass& pass) {
  Probe& probe = *pass.probe;
  const std::string scores = pass.prefix + "hook_attn_scores",
                    pattern = pass.prefix + "hook_pattern";
  const bool replace_scores = probe.replaces(scores), replace_pattern = probe.replaces(pattern);
  if (replace_scores || replace_pattern) {
    how.on_scores = [&probe, scores](const Tensor& s) { return probe.at(scores, s); };
    how.on_pattern = [&probe, pattern](const Tensor& a) { return probe.at(pattern, a); };
  } else {
    how.watch = {.scores = probe.value_observer(scores),
                 .pattern = probe.value_observer(pattern),
                 .scores_grad = probe.gradient_observer(scores),
                 .pattern_grad = probe.gradient_observer(pattern)};
  }
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
      break;
  }
  return 1;
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

Tensor MultiHeadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const Pass& pass) const {
  check_inputs(query, key, value, pass);
  const auto heads_first = [](const Tensor& x) { return permute(x, {0, 2, 1, 3}); };
  const QKV p = project(query, key, value);
  Tensor q = heads_first(pass.at("hook_q", p.q));  // [B, T, H, d] -> [B, H, T, d]
  Tensor k = heads_first(pass.at("hook_k", p.k));
  Tensor v = heads_first(pass.at("hook_v", p.v));
  if (options.rope) {
    // Queries stand where the causal mask has them: at the bottom right beside the last keys.
    const std::int64_t cached = pass.cache ? pass.cache->length() : 0;
    const std::int64_t ahead =
        options.causal ? first_query(q.size(2), k.size(2), options.alignment) : 0;
    q = rope(q, {.offset = cached + std::max<std::int64_t>(ahead, 0)});
    k = rope(k, {.offset = cached + std::max<std::int64_t>(-ahead, 0)});
  }
  if (pass.cache) {
    const KVCache::KV all = pass.cache->append(pass.layer, k, v);
    k = all.k, v = all.v;
  }
  // attention() applies the causal mask and pass.keep: KeepMask::causal,
  // autograd/ops/attention.cpp.
  AttentionOptions how{.scale = scale(),
                       .causal = options.causal,
                       .alignment = options.alignment,
                       .keep = pass.keep,
                       .bias = pass.bias,
                       .fully_masked = options.fully_masked};
  if (pass.training) how.dropout = options.dropout, how.generator = pass.generator;
  if (pass.probe) probe_weights(how, pass);
  k = repeat_heads(k, options.heads), v = repeat_heads(v, options.heads);
  const Tensor z = pass.at("hook_z", heads_first(attention(q, k, v, how)));  // [B, T, H, d]
  pass.end();
  return merge_heads(z);
}

}  // namespace heed::nn
