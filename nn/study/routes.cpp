#include "nn/study/routes.h"

#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the vector-Jacobian product J^T g, where J is the Jacobian of f at x.
template <class F>
Tensor vjp_at(const F& f, const Tensor& x, const Tensor& g) {
  const GradMode recording(true);
  const Tensor leaf = contiguous(x).detach().requires_grad_();
  return grad(f(leaf), leaf, {.grad_output = g}).detach();
}

// One block of the model, and the values and gradients that the study recorded in this block.
struct StudiedBlock {
  const Transformer& model;
  const Block& block;
  const LayerStudy& at;

  bool has(NormPlacement placement) const { return block.norm == placement; }
  // Returns the input of the attention if the residual stream before the block is x.
  Tensor attention_input(const Tensor& x) const {
    return has(NormPlacement::kPre) ? (*block.ln1)(x) : x;
  }
};

// dL/d(stream + output of the attention) as a sum of two parts: the route past the MLP and the
// route through the MLP.
struct StreamGradient {
  Tensor residual, mlp;  // `mlp` is undefined in a model without MLPs
};

// Propagates the gradient at the output of the block back to the output of the attention: through
// the MLP and, with NormPlacement::kPost, through the norms after the sums.
StreamGradient gradient_after_attention(const StudiedBlock& b) {
  Tensor g = b.at.resid_post_grad;
  const bool post = b.has(NormPlacement::kPost);
  StreamGradient s{g, {}};
  if (b.block.mlp) {
    const Tensor h = b.at.resid_mid;
    if (post) s.residual = g = vjp_at(*b.block.ln2, h + b.at.mlp_out, g);
    const auto mlp = [&](const Tensor& x) {
      return (*b.block.mlp)(b.has(NormPlacement::kPre) ? (*b.block.ln2)(x) : x);
    };
    s.mlp = vjp_at(mlp, h, g);
  }
  if (post) {
    const Tensor sum = b.at.resid_pre + b.at.attn_out;
    s.residual = vjp_at(*b.block.ln1, sum, s.residual);
    if (s.mlp.defined()) s.mlp = vjp_at(*b.block.ln1, sum, s.mlp);
  }
  return s;
}

// Propagates dL/dq (or dL/dk, dL/dv), [B, T, H, d], back to the residual stream, for each head
// alone. Returns [H, B, T, d_model].
Tensor through_projection(const StudiedBlock& b, const Tensor& gradient, const Tensor& weight) {
  const Tensor back = einsum("bthd, hmd -> hbtm", {gradient, weight});
  if (!b.has(NormPlacement::kPre)) return back;
  const Tensor x = b.at.resid_pre;
  return vjp_at(*b.block.ln1, expand(unsqueeze(x, 0), back.shape()), back);
}

// Computes Routes::from.
Tensor from_queries(const StudiedBlock& b, const Tensor& total) {
  const GradMode recording(true);
  const Tensor wide = to(total, float64);
  const Tensor length = sqrt(sum(wide * wide, {-1}, true));
  const Tensor direction = to(masked_fill(wide / length, le(length, 0.0), 0), total.dtype());
  const Tensor x = b.at.resid_pre;
  const Tensor by_keys = contiguous(x).detach().requires_grad_(),
               by_values = contiguous(x).detach().requires_grad_();
  Probe probe;
  Tensor scores, values;  // `scores` depends only on by_keys, `values` only on by_values
  probe.replace("hook_attn_scores", [&](const Tensor& s) { return scores = s; });
  probe.replace("hook_v", [&](const Tensor& v) { return values = v; });
  ForwardContext ctx{.probe = &probe};
  const std::int64_t tokens = x.size(1);
  if (b.model.options.positions == Positions::kAlibi)
    ctx.bias = ScoreBias::alibi(b.model.options.attention.heads, tokens, tokens, x.dtype());
  b.block.attn.forward(b.attention_input(x), b.attention_input(by_keys),
                       b.attention_input(by_values), ctx);
  const Tensor moved_scores = jvp(scores, by_keys, direction);    // [B, H, Tq, Tk]
  const Tensor moved_values = jvp(values, by_values, direction);  // [B, Tk, Hkv, d]
  const Tensor repeated =                                         // [B, H, Tk, d]
      repeat_heads(permute(moved_values, {0, 2, 1, 3}), b.at.pattern.size(1));
  const Tensor dz = permute(b.at.z_grad, {0, 2, 1, 3});  // [B, H, Tq, d]
  const Tensor both = b.at.scores_grad * moved_scores + b.at.pattern * matmul(dz, mT(repeated));
  return masked_fill(both, le(b.at.scores, -HUGE_VAL), 0).detach();
}

}  // namespace

Tensor Routes::shares() const {
  const Tensor whole = to(total, float64);
  return sum(to(vectors, float64) * whole, {-1}) / sum(whole * whole, {-1});
}

Routes routes(const Transformer& model, const Study& study, std::int64_t layer) {
  const NoGrad guard;
  const auto index = std::size_t(layer);
  const StudiedBlock b{model, model.blocks[index], study.layers[index]};
  Routes r{layer, {}, b.at.resid_pre_grad, {}, {}};
  std::vector<Tensor> parts;
  const auto add = [&](const std::string& name, const Tensor& vector) {
    r.parts.push_back(name);
    parts.push_back(vector);
  };
  const StreamGradient stream = gradient_after_attention(b);
  add("residual", stream.residual);
  if (stream.mlp.defined()) add("mlp", stream.mlp);
  const MultiHeadAttention& attn = b.block.attn;
  const HeadWeights w = by_head(attn.weights, attn.options);
  const struct {
    const char* route;
    const Tensor &gradient, &weight;
  } kinds[] = {{".Q", b.at.q_grad, w.W_Q}, {".K", b.at.k_grad, w.W_K}, {".V", b.at.v_grad, w.W_V}};
  for (const auto& kind : kinds) {
    const Tensor back = through_projection(b, kind.gradient, kind.weight.detach());
    const std::int64_t own = back.size(0), group = attn.options.heads / own;
    for (std::int64_t h = 0; h < own; ++h)
      add(head_range({layer, h * group}, group) + kind.route, select(back, 0, h));
  }
  r.vectors = stack(parts, 0);
  r.from = from_queries(b, r.total);
  return r;
}

}  // namespace heed::nn
