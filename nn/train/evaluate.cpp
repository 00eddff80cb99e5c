#include "nn/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace heed::nn {

using namespace autograd;

namespace {

// Sequences per forward pass: as many as keep the scores of a layer and the logits, in float64 with
// a copy or two, near 256 MB. A sequence's loss does not depend on it.
std::int64_t chunk_of(const Transformer& model, const TaskFacts& facts) {
  constexpr double kBytes = 256e6, kMost = 64;
  const auto T = double(facts.context);
  const double each = 3 * 8 * T * (T * double(model.options.heads) + double(facts.classes));
  return std::int64_t(std::clamp(kBytes / each, 1.0, kMost));
}

}  // namespace

bool leaks(const Evaluation& e) {
  return e.optimal && e.standard_error && *e.standard_error > 0 &&
         *e.optimal - e.loss > 4 * *e.standard_error;
}

Evaluation evaluate(const Transformer& model, const Task& task, std::int64_t sequences) {
  const NoGrad guard;
  const std::int64_t chunk = chunk_of(model, task.facts());
  const std::int64_t size = task.evaluation_size();
  const std::int64_t total = sequences > 0 ? std::min(sequences, size) : size;
  Evaluation e;
  double loss_sum = 0, optimal_sum = 0;
  std::int64_t right = 0, counted_total = 0;
  std::vector<double> position_sum;
  std::vector<std::int64_t> position_count;
  std::vector<double> gap;     // per sequence: mean loss minus the optimum's
  std::vector<double> weight;  // its targets
  std::map<std::string, double> references;
  bool knows_optimal = true;
  for (std::int64_t first = 0; first < total; first += chunk) {
    const Batch batch = task.evaluation(first, std::min(chunk, total - first));
    const Tensor logits = model.forward(batch.inputs);  // [B, T, classes]
    const Tensor loss = cross_entropy(logits, batch.targets, {.reduction = Reduction::kNone});
    const auto losses = to(loss, float64).to_vector<double>();
    const auto guesses = argmax(logits, -1).to_vector<std::int64_t>();
    const auto targets = batch.targets.to_vector<std::int64_t>();
    const auto counted = batch.counted.to_vector<bool>();
    const auto rows = std::size_t(batch.inputs.size(0)), length = std::size_t(batch.inputs.size(1));
    position_sum.resize(length), position_count.resize(length);
    knows_optimal = knows_optimal && batch.optimal.size() == rows;
    for (std::size_t b = 0; b < rows; ++b) {
      double row_loss = 0, row_targets = 0;
      for (std::size_t t = 0; t < length; ++t) {
        const std::size_t i = b * length + t;
        if (targets[i] == kIgnored) continue;
        row_loss += losses[i];
        row_targets += 1;
        position_sum[t] += losses[i];
        ++position_count[t];
        if (!counted[i]) continue;
        ++counted_total;
        right += guesses[i] == targets[i];
      }
      if (row_targets == 0) continue;
      const double optimal = knows_optimal ? batch.optimal[b] : 0;
      loss_sum += row_loss;
      optimal_sum += optimal * row_targets;
      gap.push_back(row_loss / row_targets - optimal);
      weight.push_back(row_targets);
      for (const auto& [name, values] : batch.references)
        references[name] += values[b] * row_targets;
    }
    e.sequences += std::int64_t(rows);
  }
  double n = 0;
  for (const double w : weight) n += w;
  e.tokens = std::int64_t(n);
  e.loss = loss_sum / n;
  if (knows_optimal) e.optimal = optimal_sum / n;
  if (counted_total > 0) e.accuracy = double(right) / double(counted_total);
  for (const auto& [name, value] : references) e.references.emplace_back(name, value / n);
  for (std::size_t t = 0; t < position_sum.size(); ++t)
    e.position_loss.push_back(position_count[t] ? position_sum[t] / double(position_count[t])
                                                : std::numeric_limits<double>::quiet_NaN());
  if (gap.size() > 1) {
    const double mean = e.loss - e.optimal.value_or(0);
    double squares = 0;
    for (std::size_t i = 0; i < gap.size(); ++i)
      squares += std::pow(weight[i] * (gap[i] - mean), 2);
    const double rows = double(gap.size());
    e.standard_error = std::sqrt(squares * rows / (rows - 1)) / n;
  }
  return e;
}

}  // namespace heed::nn
