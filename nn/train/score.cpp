#include "nn/train/score.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "autograd/ops/ops.h"
#include "nn/optim/first_non_finite.h"

namespace heed::nn {

using namespace autograd;

namespace {

TokenScore score_of(std::int64_t id, double loss, std::span<const double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0, weighted = 0;  // over logits l: sums of exp(x) and x exp(x), x = l - largest
  TokenScore s{.id = id, .log_probability = -loss, .alternative = id};
  for (std::int64_t i = 0; i < std::ssize(logits); ++i) {
    const double shifted = logits[std::size_t(i)] - largest;
    sum += std::exp(shifted);
    weighted += shifted * std::exp(shifted);
    if (i == id) continue;
    s.rank += logits[std::size_t(i)] > logits[std::size_t(id)];
    if (s.alternative == id || logits[std::size_t(i)] > logits[std::size_t(s.alternative)])
      s.alternative = i;
  }
  s.entropy = std::log(sum) - weighted / sum;
  s.alternative_log_probability = logits[std::size_t(s.alternative)] - largest - std::log(sum);
  return s;
}

}  // namespace

BatchScores score(const Transformer& model, const Batch& batch) {
  const NoGrad guard;
  BatchScores scores{.logits = model(batch.inputs)};
  const std::string bad = first_non_finite(scores.logits);
  check<NumericError>(bad.empty(), "score", "a logit [sequence, position, class] is ", bad,
                      "; the weights are damaged, or their training diverged: use other weights");
  // The losses are computed as in evaluate(), so that their sums are equal.
  const auto losses =
      to(cross_entropy(scores.logits, batch.targets, {.reduction = Reduction::kNone}), float64)
          .to_vector<double>();
  const auto logits = to(scores.logits, float64).to_vector<double>();
  const auto targets = batch.targets.to_vector<std::int64_t>();
  const std::size_t classes = logits.size() / targets.size();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    std::optional<TokenScore>& s = scores.targets.emplace_back();
    if (targets[i] != kIgnored)
      s = score_of(targets[i], losses[i], std::span(logits).subspan(i * classes, classes));
  }
  return scores;
}

}  // namespace heed::nn
