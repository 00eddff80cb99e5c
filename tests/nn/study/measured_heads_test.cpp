// Tests of the effects of heads: ablations and predictions against finite differences, an integral
// and a softmax that are written out here.
#include "nn/study/measured_heads.h"

#include "nn/lab.h"
#include "nn/study/forward_passes.h"
#include "tests/support/catch.h"
#include "tests/support/studies.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::nn::testing;

// Moves z of head h to z + share (z' - z).
void move_head(Probe& probe, const HeadIndex& h, const Replacement& r, double share) {
  probe.replace(block_site(h.layer, "attn.hook_z"), [=, &r](const Tensor& z) {
    const Tensor here = reshape(eq(arange(z.size(2)), double(h.head)), {z.size(2), 1});
    return where(here, z + (r.z[std::size_t(h.layer)] - z) * share, z);
  });
}
// Returns L of each sequence after move_head().
std::vector<double> moved(const Transformer& model, const HeadIndex& h, const Replacement& r,
                          double share) {
  Probe probe;
  move_head(probe, h, r, share);
  return to_doubles(
      objective_values(model(two_prompts().inputs, {.probe = &probe}), two_prompts(), {}));
}

double mean_of(const std::vector<double>& x) { return (x[0] + x[1]) / 2; }

constexpr double kStep = 1e-4;
// Returns the derivative of mean L with respect to `share`, by finite differences.
double slope(const Transformer& model, const HeadIndex& h, const Replacement& r, double share) {
  return (mean_of(moved(model, h, r, share + kStep)) - mean_of(moved(model, h, r, share - kStep))) /
         (2 * kStep);
}

TEST_CASE("needed and suffices are ablations; the gradient is the slope towards the replacement") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const BaseRun run(model, two_prompts(), {});
    for (const Ablation how : {Ablation::kMean, Ablation::kZero, Ablation::kResample}) {
      const Replacement r = replacement(model, two_prompts(), how);
      const MeasuredHeads all = measure_heads(run, r, EffectParts::kMeasured);
      const auto heads = all_heads(o.layers, o.attention.heads);
      REQUIRE(all.reports.size() == heads.size());
      REQUIRE(all.effects.size() == heads.size() + (o.mlp ? std::size_t(o.layers) : 0));
      const auto without = [&](const std::vector<HeadIndex>& cut) {
        return mean_of(values_without(run, components(cut), r));
      };
      const double whole = without({});
      CHECK(std::abs(all.value.mean - whole) <= 1e-12);
      CHECK(std::abs(all.no_heads.mean - (without(heads) - whole)) <= 1e-12);
      for (std::size_t i = 0; i < heads.size(); ++i) {
        const HeadReport& at = all.reports[i];
        const Evidence& e = all.effects[i];
        CHECK((e.place == head_name(at) && all.components[i] == Component(at)));
        CHECK((at[kNeeded] == e.effect.mean && at[kSuffices] == e.suffices->mean));
        CHECK(std::abs(at[kNeeded] - (mean_of(moved(model, at, r, 1)) - whole)) <= 1e-12);
        std::vector<HeadIndex> layer = heads;
        std::erase_if(layer, [&](const HeadIndex& h) { return h.layer != at.layer; });
        std::vector<HeadIndex> others = layer;
        std::erase(others, HeadIndex(at));
        CHECK(std::abs(at[kSuffices] - (without(others) - without(layer))) <= 1e-12);
        CHECK(std::abs(at[kPredicted] - slope(model, at, r, 0)) <= 1e-6);
        CHECK((e.predictions.size() == 1 && e.predicted() == at[kPredicted]));
        CHECK((std::isnan(at[kSoftmaxExact]) && std::isnan(at[kIntegrated])));
      }
    }
    for (const NamedTensor& p : parameters(model)) CHECK(!p.tensor.grad().defined());
  }
}

TEST_CASE("integrated is the mean slope at five points; softmax exact replaces one linear step") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const BaseRun run(model, two_prompts(), {});
    const Replacement r = replacement(model, two_prompts(), Ablation::kMean);
    const MeasuredHeads all = measure_heads(run, r, EffectParts::kAll);
    const Study s = study(model, two_prompts(), {});
    const NoGrad guard;
    for (const HeadReport& at : all.reports) {
      double slopes = 0;
      for (int k = 1; k <= 5; ++k) slopes += slope(model, at, r, (k - 0.5) / 5) / 5;
      CHECK(std::abs(at[kIntegrated] - slopes) <= 1e-6);
      // The change of later scores is measured by finite differences here.
      double exact = at[kPredicted];
      for (std::int64_t l = at.layer + 1; l < o.layers; ++l) {
        const auto scores = [&](double share) {
          Probe probe;
          probe.record(block_site(l, "attn.hook_attn_scores"));
          move_head(probe, at, r, share);
          model(two_prompts().inputs, {.probe = &probe});
          return probe.value(block_site(l, "attn.hook_attn_scores"));
        };
        const LayerStudy& layer = s.layers[std::size_t(l)];
        const Tensor hidden = le(layer.scores, -HUGE_VAL), A = layer.pattern;
        const Tensor dS = masked_fill((scores(kStep) - scores(-kStep)) / (2 * kStep), hidden, 0);
        const Tensor weights = exp(layer.scores + dS);
        const Tensor total = sum(weights, {3}, true);
        const Tensor first_order = A + A * (dS - sum(A * dS, {3}, true));
        const Tensor g = masked_fill(layer.pattern_grad, hidden, 0);
        exact += sum((weights / total - first_order) * g).item() / 2;
      }
      CHECK(std::abs(at[kSoftmaxExact] - exact) <= 1e-6);
      if (at.layer + 1 == o.layers) CHECK(at[kSoftmaxExact] == at[kPredicted]);
    }
  }
}

TEST_CASE("the excess of a pair is what its heads replace for each other") {
  const Transformer model = random_model(small_options());
  const BaseRun run(model, two_prompts(), {});
  const Replacement r = replacement(model, two_prompts(), Ablation::kMean);
  const MeasuredHeads all = measure_heads(run, r, EffectParts::kMeasured);
  const auto pairs = pair_effects(run, r, all);
  REQUIRE(pairs.size() == 15);
  const double both = ablate(run, {{1, 1}, {1, 2}}, r).mean;
  CHECK((pairs[14].place == "L1H1, L1H2" && pairs[14].effect.mean == both));
  CHECK(pairs[14].predicted() == Approx(all.reports[4][kNeeded] + all.reports[5][kNeeded]));
}

TEST_CASE("mean weights by distance and by token leave out padding") {
  const Transformer model = random_model(small_options());
  Batch batch = two_prompts();
  batch.padding = {0, 2};
  const Replacement r = replacement(model, batch, Ablation::kMean);
  // Measuring one sequence at a time gives the same numbers as measuring all at once.
  const MeasuredHeads whole = measure_heads({model, batch, {}}, r, EffectParts::kAll),
                      parts = measure_heads({model, batch, {}}, r, EffectParts::kAll, {}, 1);
  for (std::size_t i = 0; i < whole.reports.size(); ++i) {
    for (const Quantity q :
         {kPredicted, kSoftmaxExact, kIntegrated, kPreviousToken, kInduction, kNeeded, kSuffices})
      CHECK(std::abs(whole.reports[i][q] - parts.reports[i][q]) <= 1e-12);
    CHECK(std::abs(whole.by_token[i][3] - parts.by_token[i][3]) <= 1e-12);
  }
  CHECK(std::abs(whole.uniform[kInduction] - parts.uniform[kInduction]) <= 1e-12);
  const Tensor A = study(model, batch, {}).layers[1].pattern;
  double itself = 0, ones = 0;  // of L1H1; the sequences have 6 and 4 tokens
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t i = 0; i < 6 - 2 * b; ++i) {
      const double share = 1.0 / double(6 - 2 * b) / 2;
      itself += A.at({b, 1, i, i}) * share;
      for (std::int64_t j = 0; j <= i; ++j)
        if (batch.inputs.at({b, j}) == 1) ones += A.at({b, 1, i, j}) * share;
    }
  CHECK(whole.by_distance[4][0] == Approx(itself));
  CHECK(whole.by_token[4][1] == Approx(ones));
}

}  // namespace
