#include "nn/study/ablation.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/ops.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"
#include "nn/study/forward_passes.h"
#include "nn/train/statistics.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the mean of z [B, T, H, d_value] over the positions that hold a token, as
// [1, 1, H, d_value].
Tensor mean_of_tokens(const Tensor& z, const Batch& batch) {
  std::vector<double> holds_token;
  for (std::int64_t b = 0; b < z.size(0); ++b)
    for (std::int64_t t = 0; t < z.size(1); ++t) holds_token.push_back(t < batch.tokens_of(b));
  const Tensor weights = from_data(holds_token, {z.size(0), z.size(1), 1, 1});
  return to(sum(to(z, float64) * weights, {0, 1}, true) / sum(weights), z.dtype());
}

}  // namespace

Effect effect_of(const std::vector<double>& changes) {
  check<ValueError>(!changes.empty(), "effect_of", "needs at least one sequence, got none");
  const MeanError m = mean_error(changes);
  double absolute = 0;
  for (const double x : changes) absolute += std::abs(x);
  return {m.mean, m.error, absolute / double(m.n), std::int64_t(m.n)};
}

Replacement replacement(const Transformer& model, const Batch& batch, Ablation how) {
  const NoGrad guard;
  const std::int64_t count = batch.inputs.size(0);
  check<ValueError>(
      how != Ablation::kResample || count > 1, "replacement",
      "resample needs the output of another sequence, got a batch of one; give a batch "
      "of 2 or more");
  Replacement r{how, count, {}};
  const auto dtype = model.options.attention.dtype;
  if (how == Ablation::kZero) {
    r.z.assign(std::size_t(model.options.layers), zeros({1, 1, 1, 1}, dtype));
    return r;
  }
  const RecordedForward pass = record_forward(model, batch.inputs, {"attn.hook_z"});
  for (const Tensor& z : pass.at[0])
    r.z.push_back(how == Ablation::kMean ? mean_of_tokens(z, batch)
                                         : cat({slice(z, 0, 1, count), slice(z, 0, 0, 1)}, 0));
  return r;
}

std::vector<double> values_without(const Transformer& model, const Batch& batch,
                                   const Objective& objective, const std::vector<HeadIndex>& heads,
                                   const Replacement& replaced) {
  const NoGrad guard;
  for (const HeadIndex& h : heads)
    check_head("ablate", h, model.options.layers, model.options.attention.heads);
  Probe probe;
  for (std::int64_t layer = 0; layer < model.options.layers; ++layer) {
    std::vector<bool> cut(std::size_t(model.options.attention.heads), false);
    for (const HeadIndex& h : heads)
      if (h.layer == layer) cut[std::size_t(h.head)] = true;
    if (std::ranges::count(cut, true) == 0) continue;
    probe.replace(block_site(layer, "attn.hook_z"), [&, layer, cut](const Tensor& z) {
      return where(from_data(cut, {z.size(2), 1}), replaced.z[std::size_t(layer)], z);
    });
  }
  return to_doubles(objective_values(model(batch.inputs, {.probe = &probe}), batch, objective));
}

Effect ablate(const Transformer& model, const Batch& batch, const Objective& objective,
              const std::vector<HeadIndex>& heads, const Replacement& replaced) {
  check<ValueError>(!heads.empty(), "ablate", "needs at least one head, got none");
  const std::vector<double> whole = values_without(model, batch, objective, {}, replaced);
  std::vector<double> changes = values_without(model, batch, objective, heads, replaced);
  for (std::size_t b = 0; b < changes.size(); ++b) changes[b] -= whole[b];
  return effect_of(changes);
}

std::vector<HeadIndex> other_heads(const Transformer& model, const std::vector<HeadIndex>& heads) {
  std::vector<HeadIndex> others = all_heads(model.options.layers, model.options.attention.heads);
  std::erase_if(others, [&](const HeadIndex& h) { return std::ranges::count(heads, h) > 0; });
  return others;
}

}  // namespace heed::nn
