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
    Transformer cut = convert(clone(model), AttentionForm::kPerHead);
    for (const HeadIndex& h : {HeadIndex{0, 2}, HeadIndex{1, 0}, HeadIndex{1, 1}}) {
      const NoGrad guard;
      fill_(select(cut.blocks[std::size_t(h.layer)].attn.weights.W_O, 0, h.head), 0);
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

TEST_CASE("the mean is that of all positions with a token, resample takes the next sequence") {
  const Transformer model = random_model(small_options());
  Batch batch = three_sequences();
  batch.padding = {0, 2, 3};  // 13 positions hold a token
  const auto clean = values_of(model, batch, {});
  for (const Ablation how : {Ablation::kMean, Ablation::kResample}) {
    Probe recording, replacing;
    recording.record("blocks.0.attn.hook_z");
    model(batch.inputs, {.probe = &recording});
    const Tensor z = contiguous(recording.value("blocks.0.attn.hook_z"));  // [3, 6, 3, 4]
    replacing.replace("blocks.0.attn.hook_z", [&](const Tensor& now) {
      const Tensor y = contiguous(now.detach());
      const double* from = z.data<double>();
      double* to = y.mutable_data<double>();
      const auto place = [](std::int64_t b, std::int64_t t, std::int64_t c) {
        return ((b * 6 + t) * 3 + 1) * 4 + c;  // head 1
      };
      for (std::int64_t c = 0; c < 4; ++c) {
        double sum = 0;
        for (std::int64_t b = 0; b < 3; ++b)
          for (std::int64_t t = 0; t < batch.tokens_of(b); ++t) sum += from[place(b, t, c)];
        for (std::int64_t b = 0; b < 3; ++b)
          for (std::int64_t t = 0; t < 6; ++t)
            to[place(b, t, c)] = how == Ablation::kMean ? sum / 13 : from[place((b + 1) % 3, t, c)];
      }
      return y;
    });
    const auto replaced = values_of(model, batch, {}, &replacing);
    const auto values =
        values_without({model, batch, {}}, {{0, 1}}, replacement(model, batch, how));
    for (std::size_t b = 0; b < 3; ++b) {
      CHECK(std::abs(values[b] - clean[b]) > 1e-4);
      CHECK(std::abs(values[b] - replaced[b]) <= 1e-12);
    }
  }
}

TEST_CASE("an effect is the mean, its standard error and the mean magnitude") {
  const Effect e = effect_of({1, -2, 4, 5});
  CHECK(e.mean == 2);
  CHECK(e.standard_error == Approx(std::sqrt((1 + 16 + 4 + 9) / 3.0 / 4)));
  CHECK(e.mean_absolute == 3);
  CHECK(e.sequences == 4);
  CHECK(std::isnan(effect_of({3}).standard_error));
  CHECK_THROWS_AS(effect_of({}), ValueError);
}

TEST_CASE("the accuracy with a cut is the share of positions with the right token first") {
  const Transformer model = random_model(small_options());
  Batch batch = three_sequences();
  const Replacement r = replacement(model, batch, Ablation::kMean);
  for (const bool is_margin : {false, true}) {
    // Without position 2; the positions of a margin do not change if `counted` does.
    const Objective o = is_margin ? margin(model, batch) : Objective{};
    if (!is_margin) {
      batch.counted = logical_and(batch.counted, ne(arange(6), 2.0));
    }
    for (const HeadIndex& h : all_heads(2, 3)) {
      Probe probe;
      probe.replace(block_site(h.layer, "attn.hook_z"), [&](const Tensor& z) {
        const Tensor here = reshape(eq(arange(3), double(h.head)), {3, 1});
        return where(here, r.z[std::size_t(h.layer)], z);
      });
      const Tensor logits = model(batch.inputs, {.probe = &probe});
      double right = 0, total = 0;
      for (std::int64_t b = 0; b < batch.inputs.size(0); ++b)
        for (std::int64_t t = 0; t < batch.inputs.size(1); ++t) {
          const Tensor targets = is_margin ? o.right : batch.targets;
          const double target = targets.at({b, t});
          if (target == double(kIgnored) || (!is_margin && batch.counted.at({b, t}) == 0)) continue;
          right += argmax(select(select(logits, 0, b), 0, t), 0).item() == target, ++total;
        }
      CHECK(ablate({model, batch, o}, {h}, r).accuracy == Approx(right / total));
    }
    batch = three_sequences();
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

TEST_CASE("heads are written L1H0,L0H1; the error for another text has an example") {
  const Transformer::Options o = small_options();
  CHECK(parse_heads("x", "L1H0,L0H2", o.layers, o.attention.heads) ==
        std::vector<HeadIndex>{{1, 0}, {0, 2}});
  for (const char* text : {"", "L", "L1", "H0", "L1H0,", "l1h0", "L1H0 ", "L1H0 L0H0", "LH", "L1H",
                           "L1H0.5", "1H0", "L1H99999999999999999999"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(parse_heads("x", text, o.layers, o.attention.heads),
                      Contains("' is not a head; write heads as L0H0,L0H1"));
  }
  for (const char* text : {"L1H3", "L2H0", "L-1H0"})
    CHECK_THROWS_WITH(
        parse_heads("x", text, o.layers, o.attention.heads),
        "x: '" + std::string(text) + "' is not a head of this model, which has L0H0 to L1H2");
  const Transformer model = random_model(o);
  const Replacement zero = replacement(model, three_sequences(), Ablation::kZero);
  CHECK_THROWS_WITH(ablate({model, three_sequences(), {}}, {}, zero),
                    "ablate: needs at least one component, got none");
  CHECK_THROWS_WITH(ablate({model, three_sequences(), {}}, {{0, 7}}, zero),
                    Contains("'L0H7' is not a head"));
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
      Probe stream;
      stream.record("blocks.0.hook_mlp_out");
      const NoGrad guard;
      model(batch.inputs, {.probe = &stream});
      const Tensor out = stream.value("blocks.0.hook_mlp_out");
      const Tensor other = how == Ablation::kZero ? zeros_like(out)
                           : how == Ablation::kMean
                               ? expand(mean(out, {0, 1}, true), out.shape())
                               : cat({slice(out, 0, 1, 3), slice(out, 0, 0, 1)}, 0);
      Probe by_hand;
      by_hand.replace("blocks.0.hook_mlp_out", [&](const Tensor&) { return other; });
      const auto gates = from_data(std::vector<double>{1, 0, 1}, {3});
      if (how == Ablation::kZero) by_hand.scale_heads("blocks.1.attn.hook_z", gates);
      std::vector<Component> cut{Component::mlp(0)};
      if (how == Ablation::kZero) cut.emplace_back(1, 1);
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

TEST_CASE("components are written embed, L0H1 and L0MLP; errors name what is accepted") {
  CHECK(parse_components("x", "L0MLP,embed,L1H2", 2, 3, true) ==
        std::vector<Component>{Component::mlp(0), Component(), {1, 2}});
  for (const Component& c : {Component(), Component(1, 2), Component::mlp(1)})
    CHECK(parse_component("x", component_name(c), 2, 3, true) == c);
  for (const char* text :
       {"", "L0", "MLP", "LMLP", "L0mlp", "L0MLP0", "L0.5MLP", "Embed", "L0MLP "})
    CHECK_THROWS_WITH(parse_components("x", text, 2, 3, true),
                      Contains("' is not a component; write heads as L0H1, MLPs as L0MLP"));
  CHECK_THROWS_WITH(parse_components("x", "L2MLP", 2, 3, true),
                    "x: 'L2MLP' is not an MLP of this model, which has L0MLP to L1MLP");
  CHECK_THROWS_WITH(parse_components("x", "L0MLP", 2, 3, false),
                    "x: 'L0MLP': this model does not have MLPs");
  CHECK_THROWS_WITH(parse_components("x", "L0MLP,L0MLP", 2, 3, true), "x: names L0MLP twice");
}

}  // namespace
