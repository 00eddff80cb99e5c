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

const Batch& two_prompts() {
  static const Batch batch = batch_of({{0, 3, 1, 3, 6, 2}, {0, 1, 1, 5, 2, 4}});
  return batch;
}

// Moves z of head h to z + share (z' - z).
void move_head(Probe& probe, const HeadIndex& h, const Replacement& r, double share) {
  probe.replace(block_site(h.layer, "attn.hook_z"), [=, &r](const Tensor& z) {
    const Tensor here = reshape(eq(arange(z.size(2)), double(h.head)), {z.size(2), 1});
    return where(here, z + (r.z[std::size_t(h.layer)] - z) * share, z);
  });
}
// Returns L of each sequence with this change.
std::vector<double> moved(const Transformer& model, const HeadIndex& h, const Replacement& r,
                          double share) {
  Probe probe;
  move_head(probe, h, r, share);
  return to_doubles(
      objective_values(model(two_prompts().inputs, {.probe = &probe}), two_prompts(), {}));
}

double mean_of(const std::vector<double>& x) { return (x[0] + x[1]) / 2; }

TEST_CASE("needed and suffices are ablations; the gradient is the slope towards the replacement") {
  for (const auto& [name, o] : studied_models()) {
    CAPTURE(name);
    const Transformer model = random_model(o);
    const BaseRun run(model, two_prompts(), {});
    for (const Ablation how : {Ablation::kMean, Ablation::kZero, Ablation::kResample}) {
      const Replacement r = replacement(model, two_prompts(), how);
      const MeasuredHeads all = measure_heads(run, r, EffectParts::kMeasured);
      REQUIRE(all.reports.size() == std::size_t(o.layers * o.attention.heads));
      REQUIRE(all.effects.size() == all.reports.size() + (o.mlp ? std::size_t(o.layers) : 0));
      const double whole = mean_of(values_without(run, {}, r));
      CHECK(std::abs(all.value.mean - whole) <= 1e-12);
      const auto everything = all_heads(o.layers, o.attention.heads);
      CHECK(std::abs(all.no_heads.mean - ablate(run, components(everything), r).mean) <= 1e-12);
      for (std::size_t i = 0; i < all.reports.size(); ++i) {
        const HeadReport& at = all.reports[i];
        const Evidence& e = all.effects[i];
        CHECK((e.place == head_name(at) && all.components[i] == Component(at)));
        CHECK((at[kNeeded] == e.effect.mean && at[kSuffices] == e.suffices->mean));
        CHECK(std::abs(at[kNeeded] - (mean_of(moved(model, at, r, 1)) - whole)) <= 1e-12);
        std::vector<HeadIndex> layer, others;
        for (const HeadIndex& other : everything)
          if (other.layer == at.layer) {
            layer.push_back(other);
            if (other != HeadIndex(at)) others.push_back(other);
          }
        const auto without = [&](const std::vector<HeadIndex>& cut) {
          return mean_of(values_without(run, components(cut), r));
        };
        CHECK(std::abs(at[kSuffices] - (without(others) - without(layer))) <= 1e-12);
        const double step = 1e-4;
        const double slope =
            (mean_of(moved(model, at, r, step)) - mean_of(moved(model, at, r, -step))) / (2 * step);
        CHECK(std::abs(at[kPredicted] - slope) <= 1e-6);
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
    for (const HeadReport& at : all.reports) {
      double slopes = 0;
      const double step = 1e-4;
      for (int k = 1; k <= 5; ++k)
        slopes += (mean_of(moved(model, at, r, (k - 0.5) / 5 + step)) -
                   mean_of(moved(model, at, r, (k - 0.5) / 5 - step))) /
                  (2 * step) / 5;
      CHECK(std::abs(at[kIntegrated] - slopes) <= 1e-6);
      // The change of later scores is measured by finite differences here.
      double exact = at[kPredicted];
      for (std::int64_t l = at.layer + 1; l < o.layers; ++l) {
        const auto scores = [&](double share) {
          Probe probe;
          probe.record(block_site(l, "attn.hook_attn_scores"));
          move_head(probe, at, r, share);
          const NoGrad guard;
          model(two_prompts().inputs, {.probe = &probe});
          return probe.value(block_site(l, "attn.hook_attn_scores"));
        };
        const Tensor above = scores(step), below = scores(-step);
        const LayerStudy& layer = s.layers[std::size_t(l)];
        const MultiHeadAttention& attn = model.blocks[std::size_t(l)].attn;
        for (std::int64_t b = 0; b < 2; ++b)
          for (std::int64_t head = 0; head < o.attention.heads; ++head)
            for (std::int64_t i = 0; i < 6; ++i) {
              std::vector<double> S, dS, A, g;
              double sink = 0, total = 0, mean_dS = 0;
              if (attn.options.sink != Sink::kNone)
                sink = std::exp(attn.sink_logit.defined() ? attn.sink_logit.at({head}) : 0);
              for (std::int64_t j = 0; j < 6; ++j) {
                if (!std::isfinite(layer.scores.at({b, head, i, j}))) continue;
                S.push_back(layer.scores.at({b, head, i, j}));
                dS.push_back((above.at({b, head, i, j}) - below.at({b, head, i, j})) / (2 * step));
                A.push_back(layer.pattern.at({b, head, i, j}));
                g.push_back(layer.pattern_grad.at({b, head, i, j}));
                total += std::exp(S.back() + dS.back());
                mean_dS += A.back() * dS.back();
              }
              for (std::size_t j = 0; j < S.size(); ++j)
                exact +=
                    (std::exp(S[j] + dS[j]) / (total + sink) - A[j] - A[j] * (dS[j] - mean_dS)) *
                    g[j] / 2;
            }
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
  // Parts of one sequence give the same numbers.
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
  double itself = 0, ones = 0;
  for (std::int64_t i = 0; i < 6; ++i) {
    itself += A.at({0, 1, i, i}) / 6 / 2;
    if (i >= 2) ones += A.at({0, 1, i, 2}) / 6 / 2;  // token 1 is at position 2
  }
  for (std::int64_t i = 0; i < 4; ++i) {
    itself += A.at({1, 1, i, i}) / 4 / 2;
    for (std::int64_t j = 1; j <= std::min<std::int64_t>(i, 2); ++j)
      ones += A.at({1, 1, i, j}) / 4 / 2;
  }
  CHECK(whole.by_distance[4][0] == Approx(itself));
  CHECK(whole.by_token[4][1] == Approx(ones));
}

}  // namespace
