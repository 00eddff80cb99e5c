#include "nn/study/head_importance.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"
#include "nn/study/forward_passes.h"
#include "nn/study/simpson.h"

namespace heed::nn {

using namespace autograd;

namespace {

struct GatedRun {
  std::vector<double> values, gradients;  // by sequence: L and dL/dg
};

// Runs a batch in which the gate of head h has the value gates[i] for sequence i.
GatedRun run_gated(const Transformer& model, const Batch& copies, const Objective& objective,
                   const HeadIndex& h, const std::vector<double>& gates) {
  const GradMode recording(true);
  const std::int64_t count = copies.inputs.size(0);
  const Tensor leaf =
      to(from_data(gates, {count, 1, 1, 1}), model.options.attention.dtype).requires_grad_();
  const Tensor here = reshape(eq(arange(model.options.attention.heads), double(h.head)), {-1, 1});
  Probe probe;
  probe.replace(block_site(h.layer, "attn.hook_z"),
                [&](const Tensor& z) { return where(here, z * leaf, z); });
  const Tensor values =
      objective_values(model(copies.inputs, {.probe = &probe}), copies, objective);
  return {to_doubles(values), to_doubles(grad(sum(values), leaf))};
}

HeadImportance importance_of(const Transformer& model, const Batch& batch,
                             const Objective& objective, const HeadIndex& head,
                             const Simpson& rule) {
  const std::int64_t count = batch.inputs.size(0),
                     at_once = std::max<std::int64_t>(1, kMaxCopies / count);
  std::vector<double> first, last, gradient, integral(std::size_t(count), 0);
  for (std::int64_t begin = 0; begin < rule.points; begin += at_once) {
    const std::int64_t end = std::min(begin + at_once, rule.points);
    std::vector<double> gates;
    for (std::int64_t i = begin; i < end; ++i)
      gates.insert(gates.end(), std::size_t(count), rule.at(i));
    const GatedRun g = run_gated(model, repeat_batch(batch, end - begin), objective, head, gates);
    for (std::size_t k = 0; k < gates.size(); ++k)
      integral[k % std::size_t(count)] +=
          rule.weight(begin + std::int64_t(k) / count) * g.gradients[k];
    if (begin == 0) first.assign(g.values.begin(), g.values.begin() + count);
    if (end == rule.points) {
      last.assign(g.values.end() - count, g.values.end());
      gradient.assign(g.gradients.end() - count, g.gradients.end());
    }
  }
  HeadImportance h{head, effect_of(gradient), {}, 0, 0, false};
  std::vector<double> ablation;
  for (std::size_t b = 0; b < std::size_t(count); ++b) {
    ablation.push_back(first[b] - last[b]);
    h.integrated -= integral[b] / double(count);
    const double error = std::abs(-integral[b] - ablation[b]);
    if (std::isnan(error) || error > h.completeness_error) h.completeness_error = error;
  }
  h.ablation = effect_of(ablation);
  h.saturated = is_saturated(h.gradient.mean, h.ablation.mean);
  return h;
}

}  // namespace

std::vector<HeadImportance> head_importance(const Transformer& model, const Batch& batch,
                                            const Objective& objective, std::int64_t points) {
  const Simpson rule(points, "head_importance");
  std::vector<HeadImportance> all;
  for (const HeadIndex& head : all_heads(model.options.layers, model.options.attention.heads))
    all.push_back(importance_of(model, batch, objective, head, rule));
  return all;
}

std::vector<HeadImportance> refined_head_importance(const Transformer& model, const Batch& batch,
                                                    const Objective& objective) {
  for (std::int64_t points = 33;; points = 4 * points - 3) {
    auto heads = head_importance(model, batch, objective, points);
    const bool exact = std::all_of(heads.begin(), heads.end(), [](const HeadImportance& h) {
      return h.completeness_error <= 0.01;
    });
    if (exact || points > 500) return heads;
  }
}

void measure_cuts(Study& study, const Transformer& model, const Batch& batch,
                  const Objective& objective) {
  const std::vector<Effect> cuts = ablate_each(model, batch, objective, Ablation::kZero);
  for (std::size_t i = 0; i < cuts.size(); ++i) study.heads[i].cut = cuts[i].mean;
}

}  // namespace heed::nn
