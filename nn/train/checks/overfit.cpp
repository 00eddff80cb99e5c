#include "nn/train/checks/overfit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace heed::nn {

namespace {

// Returns numbers that are equal for two lists of read tokens that a model cannot distinguish. The
// last token of a list is the query.
std::vector<std::int64_t> distinguished(std::vector<std::int64_t> seen,
                                        const Transformer::Options& model) {
  if (!are_relative(model.positions)) return seen;
  // A weighted mean of equal values is this value, however many there are.
  if (std::ranges::all_of(seen, [&](std::int64_t x) { return x == seen[0]; })) return {seen[0]};
  if (model.layers > 1 || model.positions != Positions::kNone) return seen;
  std::map<std::int64_t, std::int64_t> times;
  for (const std::int64_t x : seen) ++times[x];
  std::int64_t divisor = 0;
  for (const auto& [token, n] : times) divisor = std::gcd(divisor, n);
  std::vector<std::int64_t> shares{seen.back()};
  for (const auto& [token, n] : times) shares.insert(shares.end(), {token, n / divisor});
  return shares;
}

}  // namespace

double entropy_floor(const Batch& batch, const Transformer::Options& model) {
  const std::int64_t window = model.attention.window;
  // Each layer moves information by at most window - 1 tokens.
  const std::int64_t reach = window > 0 ? model.layers * (window - 1) + 1 : batch.inputs.size(1);
  const auto inputs = batch.inputs.to_vector<std::int64_t>();
  const auto targets = batch.targets.to_vector<std::int64_t>();
  const std::int64_t T = batch.inputs.size(1);
  // For each result of distinguished(), the number of times that each token follows.
  std::map<std::vector<std::int64_t>, std::map<std::int64_t, double>> next;
  for (std::int64_t b = 0; b < batch.inputs.size(0); ++b)
    for (std::int64_t t = 0; t < T; ++t) {
      const std::int64_t target = targets[std::size_t(b * T + t)];
      const auto row = inputs.begin() + b * T;
      if (target == kIgnored) continue;
      std::vector<std::int64_t> seen =
          distinguished({row + std::max<std::int64_t>(0, t + 1 - reach), row + t + 1}, model);
      if (!are_relative(model.positions)) seen.push_back(t);
      ++next[seen][target];
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
  Overfit result{.least_seen = HUGE_VAL, .least = entropy_floor(batch, t.model.options)};
  const std::int64_t half = t.steps_done + (t.config().steps - t.steps_done + 1) / 2;
  double first_half = HUGE_VAL;
  while (!result.learned && t.steps_done < t.config().steps) {
    result.loss = t.step(&batch).loss;
    result.least_seen = std::min(result.least_seen, result.loss);
    if (t.steps_done <= half) first_half = result.least_seen;
    result.falls = result.least_seen - result.least < 0.99 * (first_half - result.least);
    result.learned = result.loss - result.least < kLearned;
    if (progress) progress(result);
  }
  return result;
}

}  // namespace heed::nn
