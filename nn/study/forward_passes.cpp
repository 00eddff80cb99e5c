#include "nn/study/forward_passes.h"

#include "nn/layers/probe.h"
#include "nn/layers/sites.h"

namespace heed::nn {

using namespace autograd;

RecordedForward record_forward(const Transformer& model, const Tensor& inputs,
                               const std::vector<std::string_view>& sites) {
  Probe probe;
  for (const std::string_view site : sites)
    for (std::int64_t layer = 0; layer < model.options.layers; ++layer)
      probe.record(block_site(layer, site));
  RecordedForward run{model(inputs, {.probe = &probe}), {}};
  for (const std::string_view site : sites) {
    std::vector<Tensor>& values = run.at.emplace_back();
    for (std::int64_t layer = 0; layer < model.options.layers; ++layer)
      values.push_back(probe.value(block_site(layer, site)));
  }
  return run;
}

std::int64_t sequences_at_once(const Transformer& model, std::int64_t length) {
  constexpr double kBytes = 256e6;
  const Transformer::Options& o = model.options;
  // Each head has about 8 arrays [T, T]: scores, weights and their gradients.
  const double maps = 8 * double(o.layers * o.attention.heads), T = double(length);
  return std::max<std::int64_t>(1, std::int64_t(kBytes / (4 * T * (T * maps + double(o.classes)))));
}

Tensor repeat_rows(const Tensor& x, std::int64_t n) {
  const std::int64_t count = x.size(0), length = x.size(1);
  return contiguous(reshape(expand(unsqueeze(x, 0), {n, count, length}), {n * count, length}));
}

Batch repeat_batch(const Batch& batch, std::int64_t n) {
  Batch copies;
  copies.inputs = repeat_rows(batch.inputs, n), copies.targets = repeat_rows(batch.targets, n);
  if (batch.counted.defined()) copies.counted = repeat_rows(batch.counted, n);
  return copies;
}

Batch rows_of(const Batch& batch, std::int64_t first, std::int64_t count) {
  const auto rows = [&](const Tensor& x) { return contiguous(slice(x, 0, first, first + count)); };
  Batch part;
  part.inputs = rows(batch.inputs), part.targets = rows(batch.targets);
  part.counted = rows(batch.counted);
  for (std::int64_t b = first; b < first + count; ++b)
    part.padding.push_back(batch.inputs.size(1) - batch.tokens_of(b));
  return part;
}

Objective rows_of(const Objective& objective, std::int64_t first, std::int64_t count) {
  Objective part = objective;
  if (objective.kind != Objective::kMargin) return part;
  part.right = contiguous(slice(objective.right, 0, first, first + count));
  part.wrong = contiguous(slice(objective.wrong, 0, first, first + count));
  return part;
}

void check_one_sequence(std::string_view caller, const Batch& batch) {
  check(batch.inputs.rank() == 2 && batch.inputs.size(0) == 1, caller,
        "needs one sequence [1, T], got ", batch.inputs.shape());
}

Tensor without_division(const std::optional<Norm>& norm, const Tensor& x) {
  if (!norm) return x;
  const auto* layer = std::get_if<LayerNorm>(&norm->norm);
  const Tensor weight = layer ? layer->weight : std::get<RMSNorm>(norm->norm).weight;
  const Tensor centered = layer ? x - mean(x, {-1}, true) : x;
  return weight.defined() ? centered * weight : centered;
}

std::vector<double> to_doubles(const Tensor& x) { return to(x, float64).to_vector<double>(); }

}  // namespace heed::nn
