#include "nn/study/ablation.h"

#include <algorithm>

#include "autograd/ops/ops.h"
#include "nn/layers/probe.h"
#include "nn/train/statistics.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the mean of x [B, T, ...] over the positions that hold a token, [1, 1, ...].
Tensor mean_of_tokens(const Tensor& x, const Batch& batch) {
  Shape shape = x.shape();
  for (int i = 2; i < shape.rank(); ++i) shape[i] = 1;
  const Tensor weights = to(reshape(holds_token(batch), shape), float64);
  return to(sum(to(x, float64) * weights, {0, 1}, true) / sum(weights), x.dtype());
}

// Makes the probe replace the components of one layer that are in `cut`.
void replace_components(Probe& probe, std::int64_t layer, const std::vector<Component>& cut,
                        const Transformer& model, const Replacement& replaced) {
  std::vector<bool> heads(std::size_t(model.options.attention.heads), false);
  for (const Component& c : cut) {
    if (c.layer != layer) continue;
    if (c.kind == Component::kHead) heads[std::size_t(c.head)] = true;
    const auto with = [&](const char* site, const Tensor& other) {
      probe.replace(block_site(layer, site),
                    [other](const Tensor& x) { return contiguous(expand(other, x.shape())); });
    };
    if (c.kind == Component::kEmbed) with("hook_resid_pre", replaced.embed);
    if (c.kind == Component::kMlp) with("hook_mlp_out", replaced.mlp[std::size_t(layer)]);
  }
  if (std::ranges::count(heads, true) == 0) return;
  probe.replace(block_site(layer, "attn.hook_z"), [=, &replaced](const Tensor& z) {
    return where(from_data(heads, {z.size(2), 1}), replaced.z[std::size_t(layer)], z);
  });
}

}  // namespace

Effect effect_of(const std::vector<double>& changes) {
  check<ValueError>(!changes.empty(), "effect_of", "needs at least one sequence, got none");
  const MeanError m = mean_error(changes);
  return {m.mean, m.error, std::int64_t(m.n), NAN, changes};
}

Replacement Replacement::rows(std::int64_t first, std::int64_t count) const {
  const auto part = [&](const Tensor& x) {
    return x.size(0) == 1 ? x : slice(x, 0, first, first + count);
  };
  Replacement r{how, sequences, z, mlp, part(embed)};
  for (Tensor& x : r.z) x = part(x);
  for (Tensor& x : r.mlp) x = part(x);
  return r;
}

Replacement replacement(const Transformer& model, const Batch& batch, Ablation how) {
  const NoGrad guard;
  const std::int64_t count = batch.inputs.size(0);
  check<ValueError>(
      how != Ablation::kResample || count > 1, "replacement",
      "resample needs the output of another sequence, got a batch of one; give a batch "
      "of 2 or more");
  const auto replaced = [&](const Tensor& x) {
    if (how == Ablation::kMean) return mean_of_tokens(x, batch);
    if (how == Ablation::kResample) return cat({slice(x, 0, 1, count), slice(x, 0, 0, 1)}, 0);
    return zeros(slice(slice(x, 0, 0, 1), 1, 0, 1).shape(), x.dtype());
  };
  std::vector<std::string_view> sites{"hook_resid_pre", "attn.hook_z"};
  if (model.options.mlp) sites.push_back("hook_mlp_out");
  const RecordedForward pass = record_forward(model, batch.inputs, sites);
  Replacement r{how, count, {}, {}, replaced(pass.at[0][0])};
  for (const Tensor& z : pass.at[1]) r.z.push_back(replaced(z));
  if (model.options.mlp)
    for (const Tensor& out : pass.at[2]) r.mlp.push_back(replaced(out));
  return r;
}

std::vector<double> values_without(const BaseRun& run, const std::vector<Component>& cut,
                                   const Replacement& replaced, double* accuracy) {
  const NoGrad guard;
  if (cut.empty() && !accuracy) return run.values;
  const Transformer::Options& o = run.model().options;
  std::int64_t first = o.layers - 1;
  for (const Component& c : cut) {
    check_component("ablate", c, o.layers, o.attention.heads, o.mlp);
    first = std::min(first, c.layer);
  }
  Probe probe;
  for (std::int64_t layer = first; layer < o.layers; ++layer)
    replace_components(probe, layer, cut, run.model(), replaced);
  return to_doubles(run.values_from(first, probe, accuracy));
}

Effect ablate(const BaseRun& run, const std::vector<Component>& cut, const Replacement& replaced) {
  check<ValueError>(!cut.empty(), "ablate", "needs at least one component, got none");
  double accuracy = NAN;
  Effect effect = effect_of(run.changes(values_without(run, cut, replaced, &accuracy)));
  effect.accuracy = accuracy;
  return effect;
}

std::vector<Component> components(const std::vector<HeadIndex>& heads) {
  return {heads.begin(), heads.end()};
}

std::vector<Component> other_components(const Transformer& model,
                                        const std::vector<Component>& kept) {
  std::vector<Component> others =
      components(all_heads(model.options.layers, model.options.attention.heads));
  if (std::ranges::count(kept, Component::kMlp, &Component::kind) > 0)
    for (std::int64_t layer = 0; layer < model.options.layers; ++layer)
      others.push_back(Component::mlp(layer));
  std::erase_if(others, [&](const Component& c) { return std::ranges::count(kept, c) > 0; });
  return others;
}

}  // namespace heed::nn
