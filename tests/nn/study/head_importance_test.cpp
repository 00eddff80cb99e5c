// Tests of head importance. Gradients with respect to gates are compared with finite differences,
// and integrals with ablation. Some hand-made heads must be saturated.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

const Batch& two_prompts() {
  static const Batch batch = batch_of({{0, 3, 1, 3, 6, 2}, {0, 1, 1, 5, 2, 4}});
  return batch;
}

// Returns L of each sequence if the gate of head h is g.
std::vector<double> gated(const Transformer& model, const HeadIndex& h, double g) {
  std::vector<double> gates(std::size_t(model.options.attention.heads), 1);
  gates[std::size_t(h.head)] = g;
  Probe probe;
  probe.scale_heads("blocks." + std::to_string(h.layer) + ".attn.hook_z",
                    from_data(gates, {model.options.attention.heads}));
  return objective_values(model(two_prompts().inputs, {.probe = &probe}), two_prompts(), {})
      .to_vector<double>();
}

TEST_CASE("the gradient of a gate is the slope of L; its integral equals the ablation") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    // Without norms the scores are large, so that the integrand dL/dg is almost a step function of
    // g. Then Simpson's rule needs more points.
    const bool steep = o.norm == NormPlacement::kNone;
    const int points = (steep ? 2048 : 256) / (kSanitized ? 16 : 1) + 1;
    const auto all = head_importance(model, two_prompts(), {}, points);
    REQUIRE(all.size() == std::size_t(o.layers * o.attention.heads));
    const auto ablations = ablate_each(model, two_prompts(), {}, Ablation::kZero);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const HeadImportance& h = all[i];
      CHECK(h.head == all_heads(o.layers, o.attention.heads)[i]);
      const double step = 1e-4;
      const auto above = gated(model, h.head, 1 + step), below = gated(model, h.head, 1 - step);
      double slope = 0, magnitude = 0;
      for (std::size_t b = 0; b < 2; ++b) {
        const double s = (above[b] - below[b]) / (2 * step);
        slope += s / 2, magnitude += std::abs(s) / 2;
      }
      CHECK(std::abs(h.gradient.mean - slope) <= 1e-6);
      CHECK(std::abs(h.gradient.mean_absolute - magnitude) <= 1e-6);
      CHECK(std::abs(h.ablation.mean - ablations[i].mean) <= 1e-12);
      CHECK(h.ablation.sequences == 2);
      if (!kSanitized) CHECK(h.completeness_error <= (steep ? 1e-3 : 1e-5));
      CHECK(std::abs(h.integrated - h.ablation.mean) <= h.completeness_error + 1e-12);
    }
    for (const NamedTensor& p : parameters(model)) CHECK(!p.tensor.grad().defined());
  }
}

TEST_CASE("fewer points have a larger completeness error") {
  const Transformer model = random_model(small_options());
  const auto coarse = head_importance(model, two_prompts(), {}, 3),
             fine = head_importance(model, two_prompts(), {}, 33);
  for (std::size_t i = 0; i < coarse.size(); ++i)
    CHECK(coarse[i].completeness_error > 10 * fine[i].completeness_error);
  CHECK_THROWS_WITH(head_importance(model, two_prompts(), {}, 4),
                    "head_importance: Simpson's rule needs an odd number of points, 3 or more, "
                    "got 4");
}

// Returns a model of one layer and one head without norms. The test sequence has two equal tokens,
// so that the output of the head does not depend on its attention pattern. If the gate of the head
// is g, channel 0 of the residual stream is x = 1 + written * g. Logit 0 is x - 2 relu(x - bend),
// or x if `bend` has no value.
Transformer known_model(double written, std::optional<double> bend) {
  Transformer::Options o;
  o.vocab = 2, o.context = 2, o.attention.d_model = 2, o.attention.heads = 1, o.layers = 1,
  o.attention.dtype = float64;
  o.norm = NormPlacement::kNone, o.positions = Positions::kNone;
  o.mlp = bend.has_value(), o.mlp_ratio = 0.5, o.activation = Activation::kRelu;
  Transformer model(o);
  const NoGrad guard;
  for (const NamedTensor& p : parameters(model)) fill_(p.tensor, 0);
  const auto set = [](const Tensor& x, std::initializer_list<std::initializer_list<double>> rows) {
    copy_(x, tensor(rows, float64));
  };
  Block& block = model.blocks[0];
  set(model.tok.weight, {{1, 0}, {0, 1}});
  set(model.head->weight, {{1, 0}, {0, 1}});
  set(block.attn.weights.in_proj_weight,
      {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {1, 0}, {0, 1}});  // rows 4 and 5: v is the stream
  set(block.attn.weights.out_proj_weight, {{written, 0}, {0, 0}});
  if (bend) {
    set(block.mlp->up.weight, {{1, 0}});
    set(block.mlp->down.weight, {{-2}, {0}});
    fill_(block.mlp->up.bias, -*bend);
  }
  return model;
}

TEST_CASE("a head is saturated if -gradient and ablation differ in sign") {
  const Batch batch = batch_of({{0, 0}});
  const Objective logit{Objective::kDifference, 0, 1, {0}};  // the logit of 1 is 0
  // L = log(1 + exp(-1 - 20 g)) is almost flat at g = 1, but the sign of its slope is correct.
  const HeadImportance flat = head_importance(known_model(20, {}), batch, {}, 129)[0];
  CHECK(flat.ablation.mean == Approx(std::log1p(std::exp(-1.0))));
  CHECK(std::abs(flat.gradient.mean) < 1e-7);
  CHECK(flat.integrated == Approx(flat.ablation.mean).epsilon(1e-4));
  CHECK(!flat.saturated);
  // L = -1 - 4 g is linear in g, so the first-order estimate is exact.
  const HeadImportance linear = head_importance(known_model(4, 0.0), batch, logit)[0];
  CHECK(linear.gradient.mean == Approx(-4));
  CHECK(linear.ablation.mean == Approx(4));
  CHECK(linear.completeness_error <= 1e-12);
  CHECK(!linear.saturated);
  // L rises from 1 at g = 0 to 4 at g = 0.75 and falls to 3 at g = 1. The slope at g = 1 is -4,
  // which predicts that ablation raises L, but ablation lowers L by 2.
  const HeadImportance turned = head_importance(known_model(4, 4.0), batch, logit)[0];
  CHECK(turned.gradient.mean == Approx(-4));
  CHECK(turned.ablation.mean == Approx(-2));
  CHECK(turned.saturated);
  // A head whose output is 0 has no effect, so it is not saturated.
  CHECK(!head_importance(known_model(0, {}), batch, logit)[0].saturated);
  // L = log(1 + exp(-1 - 100 g)). At g = 1 the slope rounds to 0, but without the head L is larger
  // by 0.31.
  CHECK(head_importance(known_model(100, {}), batch, {})[0].saturated);
}

}  // namespace
