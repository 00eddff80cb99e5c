#include "nn/train/checks/overfit.h"

#include <cmath>
#include <map>
#include <vector>

namespace heed::nn {

double entropy_floor(const Batch& batch) {
  const auto inputs = batch.inputs.to_vector<std::int64_t>();
  const auto targets = batch.targets.to_vector<std::int64_t>();
  const std::int64_t T = batch.inputs.size(1);
  // Number of times that each token follows each beginning of a sequence.
  std::map<std::vector<std::int64_t>, std::map<std::int64_t, double>> next;
  for (std::int64_t b = 0; b < batch.inputs.size(0); ++b)
    for (std::int64_t t = 0; t < T; ++t) {
      const std::int64_t target = targets[std::size_t(b * T + t)];
      const auto row = inputs.begin() + b * T;
      if (target != kIgnored) ++next[{row, row + t + 1}][target];
    }
  double nats = 0, total = 0;
  for (const auto& [beginning, counts] : next) {
    double n = 0;
    for (const auto& [target, count] : counts) n += count;
    for (const auto& [target, count] : counts) nats -= count * std::log(count / n);
    total += n;
  }
  return nats / total;
}

Overfit overfit_batch(Trainer& t, const std::function<void(const Overfit&)>& progress) {
  constexpr double kLearned = 1e-3;
  check<autograd::ValueError>(t.config().model.attention.dropout == 0, "`dropout`",
                              t.config().model.attention.dropout,
                              " given; overfitting one batch needs dropout 0");
  Generator g(t.config().seed);
  const Batch batch = t.task->sample(t.config().batch, g);
  Overfit result{.loss = 0, .least = entropy_floor(batch)};
  while (!result.learned && t.steps_done < t.config().steps) {
    result.loss = t.step(&batch).loss;
    result.learned = result.loss - result.least < kLearned;
    if (progress) progress(result);
  }
  return result;
}

}  // namespace heed::nn
