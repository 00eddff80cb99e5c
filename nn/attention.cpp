#include "nn/attention.h"

#include "nn/cache.h"
#include "nn/init.h"

namespace heed::nn {
namespace {

std::int64_t d_head_of(const MultiHeadAttention::Options& o) {
  check<ValueError>(o.d_model > 0 && o.heads > 0 && o.d_head >= 0, "MultiHeadAttention",
                    "needs d_model > 0, heads > 0 and d_head >= 0, got ", o.d_model, ", ", o.heads,
                    ", ", o.d_head);
  if (o.d_head) return o.d_head;
  check<ValueError>(o.d_model % o.heads == 0, "MultiHeadAttention", "d_model ", o.d_model,
                    " is not divisible by heads ", o.heads, "; choose a multiple, or set d_head");
  return o.d_model / o.heads;
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
    how.watch = {.scores = probe.takes_value(scores),
                 .pattern = probe.takes_value(pattern),
                 .scores_grad = probe.takes_gradient(scores),
                 .pattern_grad = probe.takes_gradient(pattern)};
  }
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const Options& o, Generator& g)
    : options([&] {
        Options full = o;
        full.d_head = d_head_of(o);
        check<ValueError>(!o.rope || full.d_head % 2 == 0, "MultiHeadAttention",
                          "RoPE needs an even d_head, got ", full.d_head);
        check<ValueError>(o.dropout >= 0 && o.dropout < 1, "MultiHeadAttention",
                          "needs dropout in [0, 1), got ", o.dropout);
        return full;
      }()),
      out_proj({.in = options.heads * options.d_head,
                .out = o.d_model,
                .bias = o.bias,
                .dtype = o.dtype},
               g) {
  const std::int64_t rows = options.heads * options.d_head;
  const auto make = [&](std::int64_t n, Tensor& weight) {
    weight = empty({n, o.d_model}, o.dtype).requires_grad();
    init::xavier_uniform(weight, g);
  };
  if (o.form == AttentionForm::kPackedQKV) {
    make(3 * rows, in_proj_weight);
  } else {
    make(rows, q_proj_weight);
    make(rows, k_proj_weight);
    make(rows, v_proj_weight);
  }
  if (o.bias) in_proj_bias = heed::autograd::zeros({3 * rows}, o.dtype).requires_grad();
  if (o.bias) init::zeros(out_proj.bias);
}

MultiHeadAttention::QKV MultiHeadAttention::project(const Tensor& query,
                                                    const Tensor& memory) const {
  const std::int64_t h = options.heads, d = options.d_head, rows = h * d;
  // [B, T, H d] -> [B, T, H, d]
  const auto split = [&](const Tensor& x) { return reshape(x, {x.size(0), x.size(1), h, d}); };
  const auto rows_of = [&](const Tensor& x, std::int64_t i) {  // of q, k or v in a packed tensor
    return x.defined() ? slice(x, 0, i * rows, (i + 1) * rows) : x;
  };
  // Packed, too, in three products: a slice of their common result would cost its gradient twice
  // over, in zeros around it and in sums.
  const bool packed = options.form == AttentionForm::kPackedQKV;
  const auto part = [&](const Tensor& x, const Tensor& separate, std::int64_t i) {
    return split(
        linear(x, packed ? rows_of(in_proj_weight, i) : separate, rows_of(in_proj_bias, i)));
  };
  return {part(query, q_proj_weight, 0), part(memory, k_proj_weight, 1),
          part(memory, v_proj_weight, 2)};
}

Tensor MultiHeadAttention::forward(const Tensor& query, const Tensor& memory, const KeepMask& keep,
                                   const Pass& pass) const {
  for (const Tensor* x : {&query, &memory})
    check(x->rank() == 3 && x->size(-1) == options.d_model, "MultiHeadAttention",
          "needs [B, T, d_model = ", options.d_model, "], got ", x->shape());
  check(query.size(0) == memory.size(0), "MultiHeadAttention", "query ", query.shape(),
        " and memory ", memory.shape(), " differ in batch size");
  check<ValueError>(!pass.cache || (options.causal && query.is_same(memory) && !pass.training),
                    "MultiHeadAttention",
                    "a KV cache serves causal self-attention outside training, not ",
                    pass.training    ? "training"
                    : options.causal ? "cross attention"
                                     : "attention to later tokens");
  const auto heads_first = [](const Tensor& x) { return permute(x, {0, 2, 1, 3}); };
  const QKV p = project(query, memory);
  Tensor q = heads_first(pass.at("hook_q", p.q));  // [B, T, H, d] -> [B, H, T, d]
  Tensor k = heads_first(pass.at("hook_k", p.k));
  Tensor v = heads_first(pass.at("hook_v", p.v));
  const RopeOptions positions{.offset = pass.cache ? pass.cache->length() : 0};
  if (options.rope) q = rope(q, positions), k = rope(k, positions);
  if (pass.cache) {
    const KVCache::KV seen = pass.cache->append(pass.layer, k, v);
    k = seen.k, v = seen.v;
  }
  AttentionOptions how{.causal = options.causal, .keep = keep};
  if (pass.training) how.dropout = options.dropout, how.generator = pass.generator;
  if (pass.probe) probe_weights(how, pass);
  const Tensor z = pass.at("hook_z", heads_first(attention(q, k, v, how)));  // [B, T, H, d]
  return out_proj(reshape(z, {z.size(0), z.size(1), options.heads * options.d_head}));
}

}  // namespace heed::nn
