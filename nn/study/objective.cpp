#include "nn/study/objective.h"

#include <set>

#include "autograd/ops/ops.h"

namespace heed::nn {

using namespace autograd;

namespace {

Tensor losses(const Tensor& logits, const Batch& batch, const Objective& o) {
  const std::int64_t count = batch.targets.size(0), length = batch.targets.size(1);
  auto targets = batch.targets.to_vector<std::int64_t>();
  const std::set<std::int64_t> chosen(o.positions.begin(), o.positions.end());
  std::vector<double> weights;  // [B], 1 / number of targets at the chosen positions
  for (std::int64_t b = 0; b < count; ++b) {
    std::int64_t counted = 0;
    for (std::int64_t t = 0; t < length; ++t) {
      std::int64_t& target = targets[std::size_t(b * length + t)];
      if (!chosen.empty() && !chosen.contains(t)) target = kIgnored;
      counted += target != kIgnored;
    }
    check<ValueError>(counted > 0, "study",
                      chosen.empty() ? "the sequence has" : "the positions of L have",
                      " no target, so the loss is undefined; use at least 2 tokens (the target of "
                      "the last one is unknown), other positions, or a logit");
    weights.push_back(1 / double(counted));
  }
  const Tensor each = cross_entropy(logits, from_data(targets, batch.targets.shape()),
                                    {.reduction = Reduction::kNone});  // [B, T]
  return sum(each, {1}) * to(from_data(weights, {count}), logits.dtype());
}

}  // namespace

Tensor objective_values(const Tensor& logits, const Batch& batch, const Objective& o) {
  const std::int64_t length = logits.size(1), classes = logits.size(2);
  for (const std::int64_t p : o.positions)
    check<ValueError>(p >= 0 && p < length, "study", "position ", p, " is outside the sequence of ",
                      length);
  if (o.kind == Objective::kLoss) return losses(logits, batch, o);
  std::vector<std::int64_t> positions = o.positions;
  if (positions.empty()) positions = {length - 1};
  const Tensor there =
      mean(index_select(logits, 1, from_data(positions, {std::ssize(positions)})), {1});
  const auto logit = [&](std::int64_t token) {  // returns [B]
    check<ValueError>(token >= 0 && token < classes, "study", "token ", token,
                      " is not one of the ", classes, " tokens that the model predicts");
    return select(there, 1, token);
  };
  return o.kind == Objective::kLogit ? logit(o.a) : logit(o.a) - logit(o.b);
}

}  // namespace heed::nn
