// Tests of ablation. Zero ablation must equal a model whose output projection has zeros for the
// ablated heads. Mean and resample ablation must equal a hand-written replacement.
#include "nn/lab.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

std::vector<double> values_of(const Transformer& model, const Batch& b, const Objective& o,
                              Probe* probe = nullptr) {
  return to(objective_values(model(b.inputs, {.probe = probe}), b, o), float64).to_vector<double>();
}

TEST_CASE("zero ablation equals a model whose output projection is 0 for the heads") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const Batch batch = three_sequences();
    const Transformer cut = clone(model);
    for (const HeadIndex& h : {HeadIndex{0, 2}, HeadIndex{1, 0}, HeadIndex{1, 1}}) {
      const NoGrad guard;
      const MultiHeadAttention& attn = cut.blocks[std::size_t(h.layer)].attn;
      fill_(select(by_head(attn.weights, attn.options).W_O, 0, h.head), 0);
    }
    const auto clean = values_of(model, batch, kDiff), without = values_of(cut, batch, kDiff);
    const auto cut_values = values_without({model, batch, kDiff}, {{0, 2}, {1, 0}, {1, 1}},
                                           replacement(model, batch, Ablation::kZero));
    REQUIRE(cut_values.size() == 3);
    for (std::size_t b = 0; b < 3; ++b) {
      CHECK(std::abs(without[b] - clean[b]) > 1e-4);
      CHECK(std::abs(cut_values[b] - without[b]) <= 1e-12);
    }
  }
}

// Makes the probe replace z of a head by `other`.
void replace_head(Probe& probe, const HeadIndex& h, const Tensor& other) {
  probe.replace(block_site(h.layer, "attn.hook_z"), [=](const Tensor& z) {
    return where(reshape(eq(arange(3), double(h.head)), {3, 1}), other, z);
  });
}

// Returns what replaces x [3, T, ...] according to the definition, if all positions hold a token.
Tensor replaced_by(const Tensor& x, Ablation how) {
  if (how == Ablation::kZero) return zeros_like(x);
  return how == Ablation::kMean ? expand(mean(x, {0, 1}, true), x.shape())
                                : cat({slice(x, 0, 1, 3), slice(x, 0, 0, 1)}, 0);
}

TEST_CASE("the mean is that of all positions with a token, resample takes the next sequence") {
  const Transformer model = random_model(small_options());
  Batch batch = three_sequences();
  batch.padding = {0, 2, 3};  // 13 positions hold a token
  const auto clean = values_of(model, batch, {});
  Probe recording;
  recording.record("blocks.0.attn.hook_z");
  model(batch.inputs, {.probe = &recording});
  const Tensor z = recording.value("blocks.0.attn.hook_z").detach();  // [3, 6, 3, 4]
  const Tensor tokens = from_data(
      std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0}, {3, 6, 1, 1});
  for (const Ablation how : {Ablation::kMean, Ablation::kResample}) {
    Probe replacing;
    replace_head(replacing, {0, 1},
                 how == Ablation::kMean ? sum(z * tokens, {0, 1}, true) / 13 : replaced_by(z, how));
    const auto expected = values_of(model, batch, {}, &replacing);
    const auto values =
        values_without({model, batch, {}}, {{0, 1}}, replacement(model, batch, how));
    for (std::size_t b = 0; b < 3; ++b) {
      CHECK(std::abs(values[b] - clean[b]) > 1e-4);
      CHECK(std::abs(values[b] - expected[b]) <= 1e-12);
    }
  }
}

TEST_CASE("an effect is the mean and its standard error") {
  const Effect e = effect_of({1, -2, 4, 5});
  CHECK(e.mean == 2);
  CHECK(e.standard_error == Approx(std::sqrt((1 + 16 + 4 + 9) / 3.0 / 4)));
  CHECK(e.sequences == 4);
  CHECK(std::isnan(effect_of({3}).standard_error));
  CHECK_THROWS_AS(effect_of({}), ValueError);
}

TEST_CASE("the accuracy with a cut is the share of positions with the right token first") {
  const Transformer model = random_model(small_options());
  const Replacement r = replacement(model, three_sequences(), Ablation::kMean);
  for (const bool is_margin : {false, true}) {
    // For a loss, position 2 does not count. The positions of a margin do not depend on `counted`.
    Batch batch = three_sequences();
    const Objective o = is_margin ? margin(model, batch) : Objective{};
    if (!is_margin) batch.counted = logical_and(batch.counted, ne(arange(6), 2.0));
    const Tensor targets = is_margin ? o.right : batch.targets;
    Tensor measured = ne(targets, double(kIgnored));
    if (!is_margin) measured = logical_and(measured, batch.counted);
    for (const HeadIndex& h : all_heads(2, 3)) {
      Probe probe;
      replace_head(probe, h, r.z[std::size_t(h.layer)]);
      const Tensor first = argmax(model(batch.inputs, {.probe = &probe}), -1);
      const auto count = [](const Tensor& x) { return sum(to(x, float64)).item(); };
      CHECK(ablate({model, batch, o}, {h}, r).accuracy ==
            Approx(count(logical_and(eq(first, targets), measured)) / count(measured)));
    }
  }
}

TEST_CASE("an ablation in float32 changes no .grad; no head and the other heads are sets, too") {
  Transformer::Options o = small_options();
  o.attention.dtype = float32;
  const Transformer model = random_model(o);
  const Batch batch = three_sequences();
  const Replacement mean = replacement(model, batch, Ablation::kMean);
  CHECK(mean.sequences == 3);
  CHECK(ablate({model, batch, {}}, {{1, 0}}, mean).sequences == 3);
  CHECK(values_without({model, batch, {}}, {}, mean) == values_of(model, batch, {}));
  CHECK(other_components(model, {{0, 1}, {1, 2}}) ==
        std::vector<Component>{{0, 0}, {0, 2}, {1, 0}, {1, 1}});
  for (const NamedTensor& p : parameters(model)) CHECK(!p.tensor.grad().defined());
}

TEST_CASE("heads and components are written L1H0,L0MLP,embed; errors name what is accepted") {
  const auto heads = [](const std::string& text) { return parse_heads("x", text, 2, 3); };
  const auto components = [](const std::string& text, bool mlps = true) {
    return parse_components("x", text, 2, 3, mlps);
  };
  CHECK(heads("L1H0,L0H2") == std::vector<HeadIndex>{{1, 0}, {0, 2}});
  CHECK(components("L0MLP,embed,L1H2") ==
        std::vector<Component>{Component::mlp(0), Component(), {1, 2}});
  for (const Component& c : {Component(), Component(1, 2), Component::mlp(1)})
    CHECK(parse_component("x", component_name(c), 2, 3, true) == c);
  for (const char* text : {"", "L", "L1", "H0", "L1H0,", "l1h0", "L1H0 ", "L1H0 L0H0", "LH", "L1H",
                           "L1H0.5", "1H0", "L1H99999999999999999999"})
    CHECK_THROWS_WITH(heads(text), Contains("' is not a head; write heads as L0H0,L0H1"));
  for (const char* text :
       {"", "L0", "MLP", "LMLP", "L0mlp", "L0MLP0", "L0.5MLP", "Embed", "L0MLP "})
    CHECK_THROWS_WITH(components(text),
                      Contains("' is not a component; write heads as L0H1, MLPs as L0MLP"));
  for (const std::string text : {"L1H3", "L2H0", "L-1H0"})
    CHECK_THROWS_WITH(heads(text),
                      "x: '" + text + "' is not a head of this model, which has L0H0 to L1H2");
  CHECK_THROWS_WITH(components("L2MLP"),
                    "x: 'L2MLP' is not an MLP of this model, which has L0MLP to L1MLP");
  CHECK_THROWS_WITH(components("L0MLP", false), "x: 'L0MLP': this model does not have MLPs");
  CHECK_THROWS_WITH(components("L0MLP,L0MLP"), "x: names L0MLP twice");
  const Transformer model = random_model(small_options());
  const Replacement zero = replacement(model, three_sequences(), Ablation::kZero);
  const BaseRun run(model, three_sequences(), {});
  CHECK_THROWS_WITH(ablate(run, {}, zero), "ablate: needs at least one component, got none");
  CHECK_THROWS_WITH(ablate(run, {{0, 7}}, zero), Contains("'L0H7' is not a head"));
  CHECK_THROWS_WITH(replacement(model, batch_of({{1, 2}}), Ablation::kResample),
                    Contains("batch of 2 or more"));
}

TEST_CASE("MLPs and the embedding are replaced, also together with heads of any layer") {
  for (const auto& [name, o] : studied_models()) {
    if (!o.mlp) continue;
    CAPTURE(name);
    const Transformer model = random_model(o);
    const Batch batch = three_sequences();
    for (const Ablation how : {Ablation::kMean, Ablation::kZero, Ablation::kResample}) {
      const Replacement r = replacement(model, batch, how);
      Probe by_hand;
      by_hand.replace("blocks.0.hook_mlp_out",
                      [&](const Tensor& out) { return replaced_by(out, how); });
      std::vector<Component> cut{Component::mlp(0)};
      if (how == Ablation::kZero) {
        by_hand.replace("blocks.1.attn.hook_z", [](const Tensor& z) {
          return z * reshape(tensor({1, 0, 1}, z.dtype()), {3, 1});
        });
        cut.emplace_back(1, 1);
      }
      const NoGrad guard;
      const auto expected = values_of(model, batch, kDiff, &by_hand),
                 values = values_without({model, batch, kDiff}, cut, r),
                 embed = values_without({model, batch, kDiff}, {Component()}, r);
      for (std::size_t b = 0; b < 3; ++b) CHECK(std::abs(values[b] - expected[b]) <= 1e-12);
      // Without the embedding all tokens of a sequence are equal, except by their positions.
      if (how == Ablation::kMean) CHECK(std::abs(embed[0] - embed[1]) <= 1e-12);
      CHECK(other_components(model, {Component::mlp(0), {1, 2}}) ==
            std::vector<Component>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, Component::mlp(1)});
    }
  }
}

}  // namespace
