#include "nn/lab/study/ablation.h"

#include <algorithm>
#include <numeric>

#include "autograd/ops/ops.h"
#include "nn/lab/train/statistics.h"
#include "nn/layers/probe.h"

namespace heed::lab {

using namespace autograd;

namespace {

// Returns the mean of x [B, T, ...] over the sequences that hold a token at the position,
// [1, T, ...].
Tensor mean_of_tokens(const Tensor& x, const Batch& batch) {
  Shape shape = x.shape();
  for (int i = 2; i < shape.rank(); ++i) shape[i] = 1;
  const Tensor weights = to(reshape(holds_token(batch), shape), float64),
               count = sum(weights, {0}, true);
  return to(sum(to(x, float64) * weights, {0}, true) / masked_fill(count, eq(count, 0), 1),
            x.dtype());
}

// Makes the probe replace the components of one layer that are in `cut`.
void replace_components(Probe& probe, Index layer, const std::vector<Component>& cut,
                        const Transformer& model, const Replacement& replaced) {
  std::vector<bool> heads(std::size_t(model.options.attention.heads), false);
  for (const Component& c : cut) {
    if (c.layer != layer) continue;
    if (c.kind == Component::kHead) heads[std::size_t(c.head)] = true;
    const auto with = [&](const char* site, const Tensor& other) {
      probe.replace(block_site(layer, site),
                    [other](const Tensor& x) { return contiguous(expand(other, x.shape())); });
    };
    if (c.kind == Component::kEmbed) with("hook_resid_pre", replaced.embed());
    if (c.kind == Component::kMlp) with("hook_mlp_out", replaced.mlp(layer));
  }
  if (std::ranges::count(heads, true) == 0) return;
  probe.replace(block_site(layer, "attn.hook_z"), [=, &replaced](const Tensor& z) {
    return where(from_data(heads, {z.size(2), 1}), replaced.z(layer), z);
  });
}

}  // namespace

Effect ratio_of_sums(const std::vector<double>& numerators,
                     const std::vector<double>& denominators) {
  const double above = std::accumulate(numerators.begin(), numerators.end(), 0.0),
               below = std::accumulate(denominators.begin(), denominators.end(), 0.0);
  const auto n = double(numerators.size());
  std::vector<double> without;  // the ratio without one entry
  for (std::size_t i = 0; i < numerators.size(); ++i)
    without.push_back((above - numerators[i]) / (below - denominators[i]));
  const double mean = std::accumulate(without.begin(), without.end(), 0.0) / n;
  double square = 0;
  for (const double r : without) square += (r - mean) * (r - mean);
  Effect e{above / below, n > 1 ? std::sqrt((n - 1) / n * square) : NAN, std::ssize(numerators)};
  e.changes = numerators;
  return e;
}

Effect effect_of(const std::vector<double>& changes, const std::vector<double>& weights) {
  check<ValueError>(!changes.empty(), "effect_of", "needs at least one sequence, got none");
  if (weights.empty() || std::ranges::count(weights, weights[0]) == std::ssize(weights)) {
    const MeanError m = mean_error(changes);
    return {m.mean, m.error, Index(m.n), NAN, NAN, changes};
  }
  std::vector<double> sums = changes;
  for (std::size_t b = 0; b < sums.size(); ++b) sums[b] *= weights[b];
  Effect e = ratio_of_sums(sums, weights);
  e.changes = changes;
  return e;
}

Effect effect_of_donors(const std::vector<std::vector<double>>& changes,
                        const std::vector<double>& weights) {
  std::vector<double> mean(changes[0].size(), 0), by_donor;
  for (const std::vector<double>& of_donor : changes) {
    for (std::size_t b = 0; b < mean.size(); ++b) mean[b] += of_donor[b] / double(changes.size());
    by_donor.push_back(effect_of(of_donor, weights).mean);
  }
  Effect e = effect_of(mean, weights);
  const MeanError donors = mean_error(by_donor);  // its error is NaN for one donor
  e.donor_deviation = donors.error * std::sqrt(double(donors.n));
  return e;
}

Tensor Replacement::of(const Tensor& x) const {
  return rows_.defined() ? index_select(x, 0, rows_) : x;
}

Replacement Replacement::of(Index first, Index count) const {
  Replacement part = *this;
  if (rows_.defined()) part.rows_ = slice(rows_, 0, first, first + count);
  return part;
}

Tensor Replacement::change_of(const Component& c, const Transformer& model, const Tensor& embed,
                              const std::vector<Tensor>& z, const std::vector<Tensor>& mlp) const {
  const auto l = std::size_t(c.layer);
  if (c.kind == Component::kEmbed) return this->embed() - embed;
  if (c.kind == Component::kMlp) return this->mlp(c.layer) - mlp[l];
  const MultiHeadAttention& attention = model.blocks[l].attn;
  const Tensor W_O = by_head(attention.weights, attention.options).W_O.detach();
  return matmul(select(this->z(c.layer) - z[l], 2, c.head), select(W_O, 0, c.head));
}

std::vector<Replacement> replacements(const Transformer& model, const Donors& donors,
                                      Ablation how) {
  const NoGrad guard;
  const MultiHeadAttention::Options& o = model.options.attention;
  Replacement all;
  if (how == Ablation::kZero) {
    all.embed_ = zeros({1, 1, o.d_model}, o.dtype);
    all.z_.assign(model.blocks.size(), zeros({1, 1, o.heads, o.d_value}, o.dtype));
    all.v_.assign(model.blocks.size(), zeros({1, 1, o.kv_heads, o.d_value}, o.dtype));
    all.mlp_.assign(model.blocks.size(), all.embed_);
    return {all};
  }
  const auto replaced = [&](const Tensor& x) {
    return how == Ablation::kMean ? mean_of_tokens(x, donors.source) : x;
  };
  std::vector<std::string_view> sites{"hook_resid_pre", "attn.hook_z", "attn.hook_v"};
  if (model.options.mlp) sites.push_back("hook_mlp_out");
  const RecordedForward pass = record_forward(model, donors.source.inputs, sites);
  all.embed_ = replaced(pass.at[0][0]);
  for (const Tensor& z : pass.at[1]) all.z_.push_back(replaced(z));
  for (const Tensor& v : pass.at[2]) all.v_.push_back(replaced(v));
  if (model.options.mlp)
    for (const Tensor& out : pass.at[3]) all.mlp_.push_back(replaced(out));
  if (how == Ablation::kMean) return {all};
  std::vector<Replacement> by_donor;
  for (const Tensor& rows : donors.rows) by_donor.emplace_back(all).rows_ = rows;
  return by_donor;
}

std::vector<double> values_without(const BaseRun& run, const std::vector<Component>& cut,
                                   const Replacement& replaced, double* accuracy) {
  const NoGrad guard;
  if (cut.empty() && !accuracy) return run.values;
  const Transformer::Options& o = run.model().options;
  Index first = o.layers - 1;
  for (const Component& c : cut) {
    check_component("ablate", c, o.layers, o.attention.heads, o.mlp);
    first = std::min(first, c.layer);
  }
  Probe probe;
  for (Index layer = first; layer < o.layers; ++layer)
    replace_components(probe, layer, cut, run.model(), replaced);
  return to_doubles(run.values_from(first, probe, accuracy));
}

Effect ablate(const BaseRun& run, const std::vector<Component>& cut,
              const std::vector<Replacement>& replaced) {
  const std::string what = cut.empty() ? "no component" : component_name(cut[0]);
  return effect_over(run, replaced, what, [&](const Replacement& r, double* accuracy) {
    return values_without(run, cut, r, accuracy);
  });
}

std::vector<Component> all_components(const Transformer::Options& o) {
  const auto heads = all_heads(o.layers, o.attention.heads);
  std::vector<Component> all(heads.begin(), heads.end());
  for (Index layer = 0; o.mlp && layer < o.layers; ++layer) all.push_back(Component::mlp(layer));
  return all;
}

std::vector<Component> other_components(const Transformer& model,
                                        const std::vector<Component>& kept) {
  std::vector<Component> others = all_components(model.options);
  const bool with_mlps = std::ranges::count(kept, Component::kMlp, &Component::kind) > 0;
  std::erase_if(others, [&](const Component& c) {
    return std::ranges::count(kept, c) > 0 || (c.kind == Component::kMlp && !with_mlps);
  });
  return others;
}

}  // namespace heed::lab
