#include "nn/lab/study/forward_passes.h"

#include <cmath>
#include <numeric>

#include "nn/lab/study/donors.h"
#include "nn/layers/probe.h"
#include "nn/layers/sites.h"

namespace heed::lab {

using namespace autograd;

RecordedForward record_forward(const Transformer& model, const Tensor& inputs,
                               const std::vector<std::string_view>& sites) {
  Probe probe;
  for (const std::string_view site : sites)
    for (Index layer = 0; layer < model.options.layers; ++layer)
      probe.record(block_site(layer, site));
  RecordedForward run{model(inputs, {.probe = &probe}), {}};
  for (const std::string_view site : sites) {
    std::vector<Tensor>& values = run.at.emplace_back();
    for (Index layer = 0; layer < model.options.layers; ++layer)
      values.push_back(probe.value(block_site(layer, site)));
  }
  return run;
}

BaseRun::BaseRun(const Transformer& m, const Batch& b, const Objective& o)
    : batch(b), objective(o), model_(&m) {
  const NoGrad guard;
  RecordedForward pass = record_forward(m, batch.inputs, {"hook_resid_pre"});
  resid_pre = std::move(pass.at[0]);
  values = to_doubles(objective_values(pass.logits, batch, objective));
  counts = counts_of(objective, batch);
}

Tensor BaseRun::values_from(Index layer, Probe& probe, double* accuracy) const {
  check<ValueError>(layer >= 0 && layer < std::ssize(resid_pre), "BaseRun", "has ",
                    resid_pre.size(), " layers, got layer ", layer);
  const ObjectiveAt at = at_positions(objective, batch);
  const Tensor index = from_data(at.positions, {std::ssize(at.positions)});
  const Tensor logits = model().forward_from(layer, resid_pre[std::size_t(layer)],
                                             {.probe = &probe, .logits_at = index});
  if (accuracy) *accuracy = lab::accuracy(logits, at.batch, at.objective);
  return objective_values(logits, at.batch, at.objective);
}

BaseRun BaseRun::repeated(Index n) const {
  BaseRun copies = *this;
  for (Tensor* x : {&copies.batch.inputs, &copies.batch.targets, &copies.batch.counted})
    if (x->defined()) *x = repeat_rows(*x, n);
  copies.batch.padding.clear();
  for (Tensor& x : copies.resid_pre) x = repeat_rows(x, n);
  for (Index i = 1; i < n; ++i) {
    copies.values.insert(copies.values.end(), values.begin(), values.end());
    copies.counts.insert(copies.counts.end(), counts.begin(), counts.end());
  }
  return copies;
}

BaseRun BaseRun::at(const std::vector<Index>& sequences) const {
  const Tensor index = from_data(sequences, {std::ssize(sequences)});
  BaseRun part = *this;
  part.batch = rows_of(batch, sequences);
  for (Tensor* x : {&part.objective.right, &part.objective.wrong})
    if (x->defined()) *x = index_select(*x, 0, index);
  for (Tensor& x : part.resid_pre) x = index_select(x, 0, index);
  part.values.clear(), part.counts.clear();
  for (const Index i : sequences)
    part.values.push_back(values[std::size_t(i)]), part.counts.push_back(counts[std::size_t(i)]);
  return part;
}

BaseRun BaseRun::rows(Index first, Index count) const {
  std::vector<Index> sequences(static_cast<std::size_t>(count));
  std::iota(sequences.begin(), sequences.end(), first);
  return at(sequences);
}

std::vector<double> BaseRun::changes(const std::vector<double>& changed) const {
  std::vector<double> d = changed;
  for (std::size_t b = 0; b < d.size(); ++b) d[b] -= values[b];
  return d;
}

Index sequences_at_once(const Transformer& model, Index length) {
  constexpr double kBytes = 256e6;
  const Transformer::Options& o = model.options;
  // Each head has about 8 arrays [T, T]: scores, weights and their gradients.
  const double maps = 8 * double(o.layers * o.attention.heads), T = double(length);
  return std::max<Index>(1, Index(kBytes / (4 * T * (T * maps + double(o.classes)))));
}

Tensor holds_token(const Batch& batch) {
  std::vector<Index> lengths;
  for (Index b = 0; b < batch.inputs.size(0); ++b) lengths.push_back(batch.tokens_of(b));
  return lt(arange(batch.inputs.size(1)), from_data(lengths, {std::ssize(lengths), 1}));
}

Tensor repeat_rows(const Tensor& x, Index n) {
  return n == 1 ? x : cat(std::vector<Tensor>(std::size_t(n), x), 0);
}

void check_finite(double value, std::string_view caller, const std::string& what) {
  check<NumericError>(
      std::isfinite(value), caller, what,
      " is not finite; the weights are damaged, or their training diverged: use other weights");
}

void check_separable(const Transformer& model, std::string_view caller) {
  check<ValueError>(model.options.norm != NormPlacement::kPost, caller,
                    "needs a model trained with norm pre or none; this model has norm post, so "
                    "the output of one component cannot be separated from the stream");
}

std::vector<double> to_doubles(const Tensor& x) { return to(x, float64).to_vector<double>(); }

}  // namespace heed::lab
