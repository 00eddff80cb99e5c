// Tests of the attention options window, QK-norm and soft cap. They compare scores, weights and
// probe values with the formulas, and check which options use the fused kernel.

#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/graphs.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::autograd::testing;
using namespace heed::nn::testing;
using Options = MultiHeadAttention::Options;

constexpr Index kTokens = 5;

Options base() { return {.d_model = 8, .heads = 2, .causal = true, .dtype = float64}; }

// Returns true if two tensors are close. Unlike close(), it allows entries of -inf.
bool alike(const Tensor& got, const Tensor& want) { return allclose(got, want, 1e-12, 1e-12); }

// Values inside a layer, recorded by a probe.
struct Recorded {
  Tensor q, k, v, z, scores, pattern;
};
Recorded run_recorded(const MultiHeadAttention& layer, const ForwardContext& ctx = {}) {
  Probe probe;
  for (const char* site :
       {"hook_q", "hook_k", "hook_v", "hook_z", "hook_attn_scores", "hook_pattern"})
    probe.record(site);
  ForwardContext with = ctx;
  with.probe = &probe;
  Recorded s;
  layer(draw({2, kTokens, 8}, 3), with);
  const auto heads = [&](const char* site) { return permute(probe.value(site), {0, 2, 1, 3}); };
  s.q = heads("hook_q"), s.k = heads("hook_k"), s.v = heads("hook_v"), s.z = heads("hook_z");
  s.scores = probe.value("hook_attn_scores"), s.pattern = probe.value("hook_pattern");
  return s;
}

TEST_CASE("QK-norm scales rows of q and k to norm sqrt(d_head) times a gain, before RoPE") {
  for (const bool rotate : {false, true}) {
    Options o = base();
    o.qk_norm = true, o.rope = rotate, o.kv_heads = 1;
    const MultiHeadAttention layer = random_layer(o);
    CHECK(layer.q_norm->weight.shape() == Shape{4});
    const auto norm = [&](const Tensor& x, const Tensor& gain) {
      const Tensor unit = x / sqrt(mean(x * x, {-1}, true) + 1e-5) * gain;
      return rotate ? rope(unit) : unit;
    };
    const Recorded s = run_recorded(layer);
    const Tensor q = norm(s.q, layer.q_norm->weight), k = norm(s.k, layer.k_norm->weight);
    CHECK(alike(s.scores, KeepMask::causal(kTokens, kTokens).apply(matmul(q, mT(k)) / 2.0)));
  }
}

TEST_CASE("a soft cap bounds scores before bias and mask") {
  Options o = base();
  o.soft_cap = 0.5, o.scale = 3.0;
  const MultiHeadAttention layer = random_layer(o);
  const ScoreBias bias = ScoreBias::alibi(2, kTokens, kTokens, float64);
  const Recorded s = run_recorded(layer, {.bias = bias});
  const Tensor raw = matmul(s.q, mT(s.k)) * 3.0;
  CHECK(max(abs(raw)).item() > 2);
  const Tensor capped = 0.5 * tanh(raw / 0.5) + bias.tensor();
  CHECK(alike(s.scores, KeepMask::causal(kTokens, kTokens).apply(capped)));
  o.soft_cap = -1;
  CHECK_THROWS_WITH(MultiHeadAttention(o),
                    "MultiHeadAttention: needs a finite `soft_cap` >= 0, got -1");
  o.soft_cap = 0, o.window = -1;
  CHECK_THROWS_WITH(MultiHeadAttention(o), "MultiHeadAttention: needs `window` >= 0, got -1");
  const Tensor q = draw({2, 3}, 1);
  CHECK_THROWS_WITH(attention(q, q, q, {.soft_cap = -2}),
                    "attention: needs a finite soft_cap >= 0, got -2");
}

// Returns true if the fused op "attention" is in the gradient history of y.
bool has_fused_attention(const Tensor& y) { return has_op(y, "attention"); }

TEST_CASE("composite_reason() is empty exactly if attention is fused") {
  Transformer::Options size{
      .vocab = 5, .layers = 1, .context = 6, .attention = {.d_model = 8, .heads = 2}};
  for (const auto& [name, o] : variant_models(size)) {
    const Transformer model(o);
    const MultiHeadAttention& layer = model.blocks[0].attn;
    CAPTURE(name, layer.composite_reason());
    CHECK(layer.composite_reason() == (o.attention.soft_cap > 0 ? "soft cap" : ""));
    CHECK(has_fused_attention(layer(randn({1, 6, 8}))) == layer.composite_reason().empty());
  }
  const MultiHeadAttention wide({.d_model = 4, .heads = 1, .d_head = 258});
  CHECK(wide.composite_reason() == "heads wider than 256");
  CHECK(!has_fused_attention(wide(randn({1, 6, 4}))));
}

}  // namespace
