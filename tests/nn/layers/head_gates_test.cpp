// Tests of Probe::scale_heads(): scaled heads, cut heads (gate 0) and the gradients of gates.
#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/models.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::autograd::testing;
using heed::nn::testing::random_model;

const std::string kZ = "blocks.1.attn.hook_z";

// A random model and a batch, for forward passes with gates on its heads.
struct Gated {
  Transformer model;
  Tensor ids, targets;

  explicit Gated(AttentionForm form = AttentionForm::kPackedQKV, DType dtype = float32)
      : model(random_model(
            {.vocab = 5,
             .context = 6,
             .attention = {
                 .d_model = 12, .heads = 3, .d_head = 5, .form = form, .dtype = dtype}})) {
    Generator g(4);
    ids = randint(0, 5, {2, 6}, g), targets = randint(0, 5, {2, 6}, g);
  }
  Tensor logits(const Tensor& gates = {}, const std::string& site = kZ) const {
    Probe probe;
    if (gates.defined()) probe.scale_heads(site, gates);
    return model.forward(ids, {.probe = &probe});
  }
};

TEST_CASE("cut heads give the same bits as an output projection whose columns are 0") {
  for (const AttentionForm form : {AttentionForm::kPackedQKV, AttentionForm::kPerHead}) {
    const Gated cut(form), without(form);
    {
      const NoGrad guard;
      const AttentionWeights& w = without.model.blocks[1].attn.weights;
      // W_O has shape [H, d_value, D], out_proj_weight has shape [D, H d_value], and d_value is 5.
      for (const std::int64_t head : {0, 2})
        fill_(form == AttentionForm::kPerHead
                  ? slice(w.W_O.detach(), 0, head, head + 1)
                  : slice(w.out_proj_weight.detach(), 1, 5 * head, 5 * head + 5),
              0);
    }
    CHECK(same_bits(cut.logits(tensor({0, 1, 0})), without.logits()));
    CHECK(!same_bits(cut.logits(), without.logits()));
    CHECK(same_bits(cut.logits(tensor({1, 1, 1})), cut.logits()));
    CHECK(!same_bits(cut.logits(tensor({1, 0.5, 1})), cut.logits()));
  }
}

TEST_CASE("a gate of 0 removes NaN and infinities, any other gate does not") {
  const Gated g;
  const Tensor values_of_head_1 =
      slice(g.model.blocks[1].attn.weights.in_proj_bias.detach(), 0, 2 * 15 + 5, 2 * 15 + 10);
  const Tensor clean = g.logits(tensor({1, 0, 1}));
  for (const double broken : {std::nan(""), kInf}) {
    {
      const NoGrad guard;
      fill_(values_of_head_1, broken);
    }
    CHECK(same_bits(g.logits(tensor({1, 0, 1})), clean));
    CHECK(all(isfinite(g.logits(tensor({1, 0.1, 1})))).item() == 0);
  }
}

// This test does not compare the values of the gradients. study_batch_test compares them with
// <dL/dz, z>, where L is the loss and z the value at hook_z. head_importance_test compares them
// with finite differences.
TEST_CASE("gates have gradients, also where a gate is 0, and gradients of gradients") {
  const Gated g(AttentionForm::kPackedQKV, float64);
  const Tensor gates = tensor({0, 1, 0.5}, float64).requires_grad_();
  const Tensor weight = g.model.blocks[1].attn.weights.out_proj_weight;
  const Tensor loss = cross_entropy(g.logits(gates), g.targets);
  const Tensor first = grad(loss, {gates}, {.create_graph = true})[0];
  CHECK(std::abs(first.at({0})) > 1e-5);
  CHECK(largest(grad(sum(first * first), weight)) > 1e-5);
}

TEST_CASE("errors of scale_heads name the heads and the accepted sites") {
  const Gated g;
  CHECK_THROWS_WITH(g.logits(ones({2})),
                    "probe: 'blocks.1.attn.hook_z' needs one gate per head, [3] for L1H0 to L1H2, "
                    "got [2]");
  Probe probe;
  CHECK_THROWS_WITH(probe.scale_heads("blocks.0.attn.hook_pattern", ones({3})),
                    "probe: scale_heads needs a hook_q, hook_k, hook_v or hook_z, got "
                    "'blocks.0.attn.hook_pattern'");
  CHECK_THROWS_WITH(probe.scale_heads(kZ, ones({3, 1})),
                    "probe: scale_heads needs gates [heads], got [3, 1]");
  CHECK_THROWS_WITH(g.logits(ones({3}), "blocks.2.attn.hook_z"),
                    "probe: no forward pass reached 'blocks.2.attn.hook_z'; the nearest site is "
                    "'blocks.0.attn.hook_z'");
  // If query heads share keys, hook_k has kv_heads heads, so two gates do not fit.
  const MultiHeadAttention shared({.d_model = 4, .heads = 2, .kv_heads = 1});
  probe.scale_heads("hook_k", ones({2}));
  CHECK_THROWS_WITH(shared(ones({1, 2, 4}), {.probe = &probe}),
                    "probe: 'hook_k' needs one gate per head, [1] for H0, got [2]");
}

}  // namespace
