#include "nn/study/measured_heads.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"
#include "nn/study/forward_passes.h"
#include "nn/study/study.h"

namespace heed::nn {

using namespace autograd;

namespace {

using Values = std::vector<double>;  // a number for each sequence

void append(Values& all, const Values& more) { all.insert(all.end(), more.begin(), more.end()); }

// Sequences whose arrays fit into memory at once, and the values that predictions on them need.
struct Part {
  BaseRun run;
  Replacement replaced;  // for these sequences
  Study study;           // of the unchanged model

  const LayerStudy& at(std::int64_t layer) const { return study.layers[std::size_t(layer)]; }
  const Tensor& replacement_of(std::int64_t layer) const { return replaced.z[std::size_t(layer)]; }
};

// A forward pass in which the output of one head is z' + g (z - z'), with a gate g for each
// sequence. At g = 1 the head is unchanged, at g = 0 it is replaced.
struct GatedForward {
  Tensor gates;                // [B, 1, 1, 1], a leaf
  Tensor values;               // [B], L
  std::vector<Tensor> scores;  // scores of each later layer, computed from `gates`
};
GatedForward gated_forward(const Part& part, const HeadIndex& h, double gate, bool keep_scores) {
  const Transformer::Options& model = part.run.model().options;
  const MultiHeadAttention::Options& attention = model.attention;
  GatedForward pass;
  pass.gates = full({std::ssize(part.run.values), 1, 1, 1}, gate, attention.dtype).requires_grad_();
  const Tensor here = reshape(eq(arange(attention.heads), double(h.head)), {-1, 1});
  Probe probe;
  probe.replace(block_site(h.layer, "attn.hook_z"), [&](const Tensor& z) {
    const Tensor& other = part.replacement_of(h.layer);
    return where(here, other + (z - other) * pass.gates, z);
  });
  for (std::int64_t l = h.layer + 1; keep_scores && l < model.layers; ++l)
    probe.replace(block_site(l, "attn.hook_attn_scores"), [&](const Tensor& scores) {
      pass.scores.push_back(scores);
      return scores;
    });
  pass.values = part.run.values_from(h.layer, probe);
  return pass;
}

// Returns (out' - out) . dL/d(out) of one MLP for each sequence, where out' is the replacement.
Values gradient_prediction(const Part& part, const Component& mlp) {
  const LayerStudy& s = part.at(mlp.layer);
  const Tensor change = to(part.replaced.mlp[std::size_t(mlp.layer)] - s.mlp_out, float64);
  return to_doubles(sum(change * to(s.mlp_out_grad, float64), {1, 2}));
}

// Returns the difference between the exact change of the softmax of later heads and its first-order
// change, for each sequence: the sum of (softmax(S + dS) - A - J dS) . dL/dA.
Values softmax_correction(const Part& part, const HeadIndex& h) {
  Values total(part.run.values.size(), 0);
  if (h.layer + 1 == part.run.model().options.layers) return total;
  const GradMode recording(true);
  const GatedForward pass = gated_forward(part, h, 1, true);
  const Tensor toward_replacement = full(pass.gates.shape(), -1, pass.gates.dtype());
  for (std::size_t i = 0; i < pass.scores.size(); ++i) {
    const std::int64_t layer = h.layer + 1 + std::int64_t(i);
    const Tensor change = to(jvp(pass.scores[i], pass.gates, toward_replacement), float64);
    const LayerStudy& s = part.at(layer);
    const Tensor hidden = le(s.scores, -HUGE_VAL);
    const Tensor dS = masked_fill(change, hidden, 0), A = to(s.pattern, float64);
    const Tensor exact = softmax(to(s.scores, float64) + dS, -1);
    const Tensor first_order = A * (dS - sum(A * dS, {-1}, true));
    const Tensor dA = masked_fill(to(s.pattern_grad, float64), hidden, 0);
    const Values here = to_doubles(sum((exact - A - first_order) * dA, {1, 2, 3}));
    for (std::size_t b = 0; b < total.size(); ++b) total[b] += here[b];
  }
  return total;
}

// Returns kIntegrated of each sequence: the mean over five gates of the first-order change of L.
Values integrated_prediction(const Part& part, const HeadIndex& h) {
  constexpr int kPoints = 5;
  Values total(part.run.values.size(), 0);
  const GradMode recording(true);
  for (int k = 1; k <= kPoints; ++k) {
    const GatedForward pass = gated_forward(part, h, 1 - (k - 0.5) / kPoints, false);
    const Values slopes = to_doubles(grad(sum(pass.values), pass.gates));
    for (std::size_t b = 0; b < total.size(); ++b) total[b] -= slopes[b] / kPoints;
  }
  return total;
}

// The predictions of a component, in this order. An MLP has only the first prediction.
constexpr std::pair<const char*, Quantity> kPredictions[] = {
    {"gradient", kPredicted},
    {"softmax exact", kSoftmaxExact},
    {"integrated (activation)", kIntegrated}};
using Predictions = std::array<Values, std::size(kPredictions)>;  // empty: not computed

// Adds the mean weights of one head on `part`, times `share`, to by_distance and by_token.
void add_weights(std::vector<double>& by_distance, std::vector<double>& by_token,
                 const HeadIndex& head, const Part& part, double share) {
  const Tensor& A = part.at(head.layer).pattern;
  const std::int64_t length = A.size(2);
  by_distance.resize(std::size_t(length));
  by_token.resize(std::size_t(part.run.model().options.vocab));
  const std::vector<double> weights = to_doubles(select(A, 1, head.head));  // [B, T, T]
  const auto tokens = part.run.batch.inputs.to_vector<std::int64_t>();
  const std::int64_t count = A.size(0);
  for (std::int64_t b = 0; b < count; ++b) {
    const std::int64_t n = part.run.batch.tokens_of(b);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        const double w =
            share / double(count) * weights[std::size_t((b * length + i) * length + j)];
        by_distance[std::size_t(i - j)] += w / double(n);
        by_token[std::size_t(tokens[std::size_t(b * length + j)])] += w / double(n);
      }
  }
}

// Sets the scores and mean weights of all heads. Returns the predictions of all components.
std::vector<Predictions> predict(MeasuredHeads& all, const BaseRun& run,
                                 const Replacement& replaced, EffectParts parts,
                                 std::int64_t at_once, const std::function<void()>& step_done) {
  const std::size_t heads = all.by_token.size();
  std::vector<Predictions> predictions(all.components.size());
  std::vector<std::vector<HeadReport>> reports(heads);  // by head, then by part
  std::vector<HeadReport> uniform;
  std::vector<double> shares;
  const std::int64_t count = std::ssize(run.values);
  for (std::int64_t first = 0; first < count; first += at_once) {
    const std::int64_t n = std::min(at_once, count - first);
    const double share = double(n) / double(count);
    const BaseRun rows = run.rows(first, n);
    const Part part{rows, replaced.rows(first, n), study(run.model(), rows.batch, rows.objective)};
    uniform.push_back(part.study.uniform), shares.push_back(share);
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      auto& [gradient, softmax_exact, integrated] = predictions[i];
      if (i >= heads) {
        append(gradient, gradient_prediction(part, all.components[i]));
        continue;
      }
      const HeadReport& h = part.study.heads[i];
      reports[i].push_back(h);
      add_weights(all.by_distance[i], all.by_token[i], h, part, share);
      const Values slope = gradient_prediction(part.study, h, part.replaced);
      append(gradient, slope);
      if (parts == EffectParts::kMeasured) continue;
      Values exact = softmax_correction(part, h);
      for (std::size_t b = 0; b < exact.size(); ++b) exact[b] += slope[b];
      append(softmax_exact, exact);
      append(integrated, integrated_prediction(part, h));
      step_done();
    }
  }
  for (const auto& of_head : reports) all.reports.push_back(mean_report(of_head, shares));
  all.uniform = mean_report(uniform, shares);
  return predictions;
}

}  // namespace

std::vector<double> gradient_prediction(const Study& study, const HeadIndex& h,
                                        const Replacement& replaced) {
  const LayerStudy& s = study.layers[std::size_t(h.layer)];
  const Tensor change = to(replaced.z[std::size_t(h.layer)], float64) - to(s.z, float64);
  return to_doubles(select(sum(change * to(s.z_grad, float64), {1, 3}), 1, h.head));
}

MeasuredHeads measure_heads(const BaseRun& run, const Replacement& replaced, EffectParts parts,
                            const ProgressCallback& progress, std::int64_t at_once) {
  const Transformer::Options& o = run.model().options;
  const std::int64_t per_layer = o.attention.heads, sequences = std::ssize(run.values);
  const auto heads = all_heads(o.layers, per_layer);
  std::int64_t done = 0;
  if (at_once <= 0) at_once = sequences_at_once(run.model(), run.batch.inputs.size(1));
  const std::int64_t shards = (sequences + at_once - 1) / at_once;
  const std::int64_t steps = std::ssize(heads) * (parts == EffectParts::kAll ? 1 + shards : 1);
  const auto step_done = [&] {
    if (progress) progress(++done, steps);
  };
  MeasuredHeads all{.value = effect_of(run.values),
                    .no_heads = ablate(run, components(heads), replaced),
                    .components = components(heads)};
  all.by_distance.resize(heads.size()), all.by_token.resize(heads.size());
  values_without(run, {}, replaced, &all.value.accuracy);
  for (std::int64_t layer = 0; o.mlp && layer < o.layers; ++layer)
    all.components.push_back(Component::mlp(layer));
  const auto predictions = predict(all, run, replaced, parts, at_once, step_done);
  Values without_layer;
  for (std::size_t i = 0; i < all.components.size(); ++i) {
    const Component& c = all.components[i];
    Evidence& e = all.effects.emplace_back();
    e.place = component_name(c), e.effect = ablate(run, {c}, replaced);
    double all_numbers = e.effect.mean + all.no_heads.mean;
    for (std::size_t k = 0; k < std::size(kPredictions); ++k) {
      if (predictions[i][k].empty()) continue;
      e.predictions.push_back({kPredictions[k].first, effect_of(predictions[i][k])});
      all_numbers += e.predictions.back().effect.mean;
    }
    if (c.kind == Component::kHead) {
      std::vector<HeadIndex> layer(heads.begin() + c.layer * per_layer,
                                   heads.begin() + (c.layer + 1) * per_layer);
      if (c.head == 0) without_layer = values_without(run, components(layer), replaced);
      std::erase(layer, heads[i]);
      Values alone = values_without(run, components(layer), replaced);
      for (std::size_t b = 0; b < alone.size(); ++b) alone[b] -= without_layer[b];
      e.suffices = effect_of(alone), all_numbers += e.suffices->mean;
      HeadReport& r = all.reports[i];
      r[kNeeded] = e.effect.mean, r[kSuffices] = e.suffices->mean;
      for (std::size_t k = 0; k < e.predictions.size(); ++k)
        r[kPredictions[k].second] = e.predictions[k].effect.mean;
      step_done();
    }
    check_finite(all_numbers, "study", "the effect of " + e.place);
  }
  return all;
}

std::vector<Evidence> pair_effects(const BaseRun& run, const Replacement& replaced,
                                   const MeasuredHeads& measured) {
  std::vector<Evidence> pairs;
  for (std::size_t i = 0; i < measured.reports.size(); ++i)
    for (std::size_t j = i + 1; j < measured.reports.size(); ++j) {
      const Evidence &a = measured.effects[i], &b = measured.effects[j];
      const double sum = a.effect.mean + b.effect.mean;
      pairs.push_back({a.place + ", " + b.place,
                       ablate(run, {measured.components[i], measured.components[j]}, replaced),
                       {{"sum", {sum, NAN, a.effect.sequences}}}});
    }
  return pairs;
}

}  // namespace heed::nn
