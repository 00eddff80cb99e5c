#include "nn/study/ablation.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"
#include "nn/study/forward_passes.h"
#include "nn/train/statistics.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::string_view kAblate = "ablate";

struct CleanRun {
  Tensor values;          // [B], L of each sequence
  std::vector<Tensor> z;  // by layer, [B, T, H, d_value]; empty for kZero
};

CleanRun run_clean(const Transformer& model, const Batch& batch, const Objective& objective,
                   Ablation how) {
  check<ValueError>(
      how != Ablation::kResample || batch.inputs.size(0) > 1, kAblate,
      "resample needs the output of another sequence, got a batch of one; give a batch "
      "of 2 or more");
  if (how == Ablation::kZero) return {objective_values(model(batch.inputs), batch, objective), {}};
  RecordedForward pass = record_forward(model, batch.inputs, {"attn.hook_z"});
  return {objective_values(pass.logits, batch, objective), std::move(pass.at[0])};
}

// Returns the replacement for z [B, T, H, d_value], in a shape that broadcasts to the shape of z.
Tensor replacement_of(const CleanRun& clean, std::int64_t layer, const Tensor& z, Ablation how) {
  if (how == Ablation::kZero) return zeros({1}, z.dtype());
  const Tensor& whole = clean.z[std::size_t(layer)];
  if (how == Ablation::kMean) return mean(whole, {0, 1}, true);
  return cat({slice(whole, 0, 1, whole.size(0)), slice(whole, 0, 0, 1)}, 0);
}

std::vector<double> changes_without(const Transformer& model, const Batch& batch,
                                    const Objective& objective, const std::vector<HeadIndex>& heads,
                                    Ablation how, const CleanRun& clean) {
  Probe probe;
  for (std::int64_t layer = 0; layer < model.options.layers; ++layer) {
    std::vector<bool> cut(std::size_t(model.options.attention.heads), false);
    bool any_cut = false;
    for (const HeadIndex& h : heads)
      if (h.layer == layer) cut[std::size_t(h.head)] = any_cut = true;
    if (!any_cut) continue;
    probe.replace(block_site(layer, "attn.hook_z"), [&, layer, cut](const Tensor& z) {
      return where(from_data(cut, {z.size(2), 1}), replacement_of(clean, layer, z, how), z);
    });
  }
  const Tensor values = objective_values(model(batch.inputs, {.probe = &probe}), batch, objective);
  return to_doubles(to(values, float64) - to(clean.values, float64));
}

}  // namespace

Effect effect_of(const std::vector<double>& changes) {
  check<ValueError>(!changes.empty(), "effect_of", "needs at least one sequence, got none");
  const MeanError m = mean_error(changes);
  double absolute = 0;
  for (const double x : changes) absolute += std::abs(x);
  return {m.mean, m.error, absolute / double(m.n), std::int64_t(m.n)};
}

std::vector<double> ablation_changes(const Transformer& model, const Batch& batch,
                                     const Objective& objective,
                                     const std::vector<HeadIndex>& heads, Ablation how) {
  const NoGrad guard;
  check<ValueError>(!heads.empty(), kAblate, "needs at least one head, got none");
  for (const HeadIndex& h : heads)
    check_head(kAblate, h, model.options.layers, model.options.attention.heads);
  return changes_without(model, batch, objective, heads, how,
                         run_clean(model, batch, objective, how));
}

Effect ablate(const Transformer& model, const Batch& batch, const Objective& objective,
              const std::vector<HeadIndex>& heads, Ablation how) {
  return effect_of(ablation_changes(model, batch, objective, heads, how));
}

std::vector<Effect> ablate_each(const Transformer& model, const Batch& batch,
                                const Objective& objective, Ablation how) {
  const NoGrad guard;
  const CleanRun clean = run_clean(model, batch, objective, how);
  std::vector<Effect> effects;
  for (const HeadIndex& h : all_heads(model.options.layers, model.options.attention.heads))
    effects.push_back(effect_of(changes_without(model, batch, objective, {h}, how, clean)));
  return effects;
}

}  // namespace heed::nn
