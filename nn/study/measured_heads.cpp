#include "nn/study/measured_heads.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"
#include "nn/study/forward_passes.h"
#include "nn/study/softmax.h"
#include "nn/study/study.h"

namespace heed::nn {

using namespace autograd;

namespace {

using Values = std::vector<double>;  // a number for each sequence

void append(Values& all, const Values& more) { all.insert(all.end(), more.begin(), more.end()); }

// Sequences whose arrays fit into memory at once, and what their prediction needs.
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
  std::vector<Tensor> scores;  // S of the layers after the head's, in the graph of `gates`
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

// (out' - out) . dL/d(out) of one MLP, for each sequence.
Values gradient_prediction(const Part& part, const Component& mlp) {
  const LayerStudy& s = part.at(mlp.layer);
  const Tensor change = to(part.replaced.mlp[std::size_t(mlp.layer)] - s.mlp_out, float64);
  return to_doubles(sum(change * to(s.mlp_out_grad, float64), {1, 2}));
}

// The difference between the exact softmax of later heads and its first-order change, for each
// sequence: the sum of (softmax(S + dS) - A - J dS) . dL/dA.
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
    const Tensor exact =
        weights_of(to(s.scores, float64) + dS, part.run.model().blocks[std::size_t(layer)].attn);
    const Tensor first_order = A * (dS - sum(A * dS, {-1}, true));
    const Tensor dA = masked_fill(to(s.pattern_grad, float64), hidden, 0);
    const Values here = to_doubles(sum((exact - A - first_order) * dA, {1, 2, 3}));
    for (std::size_t b = 0; b < total.size(); ++b) total[b] += here[b];
  }
  return total;
}

// The mean over five gates of the first-order change, for each sequence.
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

// Predictions for each sequence: those of one head, or `gradient` of one MLP.
struct Predictions {
  Values gradient, softmax_exact, integrated;
};

// The mean of reports with weights. A report in which a quantity is NaN has no share in it.
struct MeanReport {
  HeadReport sum{}, weight{};

  void add(const HeadReport& report, double w) {
    sum.layer = report.layer, sum.head = report.head;
    for (const HeadQuantity& q : head_quantities())
      if (!std::isnan(report.*q.value)) sum.*q.value += w * report.*q.value, weight.*q.value += w;
  }
  HeadReport mean() const {
    HeadReport m = sum;
    for (const HeadQuantity& q : head_quantities()) m.*q.value = sum.*q.value / weight.*q.value;
    return m;
  }
};

// Adds the mean weights of one head in one part, times `share`, to its by_distance and by_token.
void add_weights(MeasuredHead& head, const Part& part, double share) {
  const Tensor& A = part.at(head.report.layer).pattern;
  const std::int64_t length = A.size(2);
  head.by_distance.resize(std::size_t(length));
  head.by_token.resize(std::size_t(part.run.model().options.vocab));
  const std::vector<double> weights = to_doubles(select(A, 1, head.report.head));  // [B, T, T]
  const auto tokens = part.run.batch.inputs.to_vector<std::int64_t>();
  const std::int64_t count = A.size(0);
  for (std::int64_t b = 0; b < count; ++b) {
    const std::int64_t n = part.run.batch.tokens_of(b);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j <= i; ++j) {
        const double w =
            share / double(count) * weights[std::size_t((b * length + i) * length + j)];
        head.by_distance[std::size_t(i - j)] += w / double(n);
        head.by_token[std::size_t(tokens[std::size_t(b * length + j)])] += w / double(n);
      }
  }
}

// Sets the scores of all heads. Returns the predictions of all heads and then of all MLPs.
std::vector<Predictions> predict(MeasuredHeads& all, const BaseRun& run,
                                 const Replacement& replaced, EffectParts parts,
                                 std::int64_t at_once, const std::function<void()>& step_done) {
  std::vector<Predictions> predictions(all.heads.size() + all.mlps.size());
  std::vector<MeanReport> reports(all.heads.size());
  MeanReport uniform;
  const std::int64_t count = std::ssize(run.values);
  for (std::int64_t first = 0; first < count; first += at_once) {
    const std::int64_t n = std::min(at_once, count - first);
    const double share = double(n) / double(count);
    const BaseRun rows = run.rows(first, n);
    const Part part{rows, replaced.rows(first, n), study(run.model(), rows.batch, rows.objective)};
    uniform.add(part.study.uniform, share);
    for (std::size_t i = 0; i < all.heads.size(); ++i) {
      reports[i].add(part.study.heads[i], share);
      all.heads[i].report = reports[i].mean();
      add_weights(all.heads[i], part, share);
      const HeadIndex& h = all.heads[i].report;
      const Values gradient = gradient_prediction(part.study, h, part.replaced);
      append(predictions[i].gradient, gradient);
      if (parts == EffectParts::kMeasured) continue;
      Values exact = softmax_correction(part, h);
      for (std::size_t b = 0; b < exact.size(); ++b) exact[b] += gradient[b];
      append(predictions[i].softmax_exact, exact);
      append(predictions[i].integrated, integrated_prediction(part, h));
      step_done();
    }
    for (std::size_t i = 0; i < all.mlps.size(); ++i)
      append(predictions[all.heads.size() + i].gradient,
             gradient_prediction(part, all.mlps[i].mlp));
  }
  all.uniform = uniform.mean();
  return predictions;
}

}  // namespace

std::vector<double> gradient_prediction(const Study& study, const HeadIndex& h,
                                        const Replacement& replaced) {
  const LayerStudy& s = study.layers[std::size_t(h.layer)];
  const Tensor change = to(replaced.z[std::size_t(h.layer)], float64) - to(s.z, float64);
  return to_doubles(select(sum(change * to(s.z_grad, float64), {1, 3}), 1, h.head));
}

std::vector<EffectRow> MeasuredHeads::rows() const {
  std::vector<EffectRow> rows;
  for (const MeasuredHead& h : heads) rows.push_back(h.row());
  return rows;
}

std::vector<EffectEstimate> effect_estimates() {
  return {{"gradient", [](const MeasuredHead& h) { return std::optional(h.gradient); }},
          {"softmax exact", [](const MeasuredHead& h) { return h.softmax_exact; }},
          {"integrated", [](const MeasuredHead& h) { return h.integrated; }}};
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
  MeasuredHeads all{effect_of(run.values), ablate(run, components(heads), replaced), {}, {}, {}};
  values_without(run, {}, replaced, &all.value.accuracy);
  all.heads.resize(heads.size());
  for (std::int64_t layer = 0; o.mlp && layer < o.layers; ++layer)
    all.mlps.push_back({Component::mlp(layer), {}, {}});
  const auto predictions = predict(all, run, replaced, parts, at_once, step_done);
  Values without_layer;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const HeadIndex& h = heads[i];
    std::vector<HeadIndex> layer(heads.begin() + h.layer * per_layer,
                                 heads.begin() + (h.layer + 1) * per_layer);
    if (h.head == 0) without_layer = values_without(run, components(layer), replaced);
    std::erase(layer, h);
    MeasuredHead& m = all.heads[i];
    m.needed = ablate(run, {h}, replaced);
    Values only_here = without_layer;  // L without the layer, minus L without its other heads
    const Values without_others = values_without(run, components(layer), replaced);
    for (std::size_t b = 0; b < only_here.size(); ++b) only_here[b] -= without_others[b];
    m.suffices = effect_of(only_here);
    m.gradient = effect_of(predictions[i].gradient);
    if (parts == EffectParts::kAll) {
      m.softmax_exact = effect_of(predictions[i].softmax_exact);
      m.integrated = effect_of(predictions[i].integrated);
    }
    double all_numbers = m.needed.mean + m.suffices.mean + all.no_heads.mean;
    for (const EffectEstimate& e : effect_estimates())
      if (const auto estimate = e.value(m)) all_numbers += estimate->mean;
    check<NumericError>(std::isfinite(all_numbers), "study", "the effect of ", head_name(h),
                        " is not finite");
    step_done();
  }
  for (std::size_t i = 0; i < all.mlps.size(); ++i) {
    MeasuredMlp& m = all.mlps[i];
    m.needed = ablate(run, {m.mlp}, replaced);
    m.gradient = effect_of(predictions[heads.size() + i].gradient);
    check<NumericError>(std::isfinite(m.needed.mean + m.gradient.mean), "study", "the effect of ",
                        component_name(m.mlp), " is not finite");
  }
  return all;
}

std::vector<PairEffect> pair_effects(const BaseRun& run, const Replacement& replaced,
                                     const std::vector<MeasuredHead>& heads) {
  std::vector<PairEffect> pairs;
  for (std::size_t i = 0; i < heads.size(); ++i)
    for (std::size_t j = i + 1; j < heads.size(); ++j) {
      const HeadIndex &a = heads[i].report, &b = heads[j].report;
      const Effect both = ablate(run, {a, b}, replaced);
      pairs.push_back({a, b, both, both.mean - heads[i].needed.mean - heads[j].needed.mean});
    }
  return pairs;
}

}  // namespace heed::nn
