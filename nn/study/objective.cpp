#include "nn/study/objective.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autograd/ops/ops.h"
#include "nn/study/forward_passes.h"

namespace heed::nn {

using namespace autograd;

namespace {

void check_position(std::int64_t position, std::int64_t length) {
  check<ValueError>(position >= 0 && position < length, "study", "position ", position,
                    " is outside the sequence of ", length);
}

// Returns [T] bool8: true at these positions.
Tensor is_at(const std::vector<std::int64_t>& positions, std::int64_t length) {
  std::vector<bool> is(std::size_t(length), false);
  for (const std::int64_t p : positions) check_position(p, length), is[std::size_t(p)] = true;
  return from_data(is, {length});
}

// Returns the targets that count in the accuracy, and kIgnored elsewhere.
Tensor counted_targets(const Batch& batch) {
  if (!batch.counted.defined()) return batch.targets;
  return masked_fill(batch.targets, logical_not(batch.counted), double(kIgnored));
}

// Returns log p - log(1 - p) of the target at each position [B, T]; not defined for kIgnored.
Tensor log_odds(const Tensor& logits, const Tensor& targets) {
  const Tensor index = unsqueeze(masked_fill(targets, eq(targets, double(kIgnored)), 0), -1);
  const Tensor is_target = eq(index, arange(logits.size(-1)));  // [B, T, classes]
  return squeeze(gather(logits, 2, index), -1) -
         logsumexp(masked_fill(logits, is_target, -HUGE_VAL), {-1});
}

// Returns the mean over the targets that L counts, [B]: of the log odds for kLogOdds, and otherwise
// of the cross-entropy.
Tensor mean_of_targets(const Tensor& logits, const Batch& batch, const Objective& o) {
  const bool is_odds = o.kind == Objective::kLogOdds;
  Tensor targets = batch.targets;
  if (!o.positions.empty())
    targets = masked_fill(targets, logical_not(is_at(o.positions, targets.size(1))), kIgnored);
  else if (is_odds)
    targets = counted_targets(batch);
  const Tensor counts = ne(targets, double(kIgnored));
  const Tensor number = sum(to(counts, float64), {1});  // [B]
  check<ValueError>(min(number).item() > 0, "study",
                    o.positions.empty() ? "the sequence has" : "the positions of L have",
                    " no target, so the loss is undefined; use at least 2 tokens (the target of "
                    "the last one is unknown), other positions, or a logit");
  const Tensor each = is_odds ? log_odds(logits, targets)
                              : cross_entropy(logits, targets, {.reduction = Reduction::kNone});
  return sum(masked_fill(each, logical_not(counts), 0), {1}) * to(1 / number, logits.dtype());
}

Tensor margins(const Tensor& logits, const Objective& o) {
  const std::int64_t count = logits.size(0), length = logits.size(1);
  const bool fits = o.right.defined() && o.wrong.defined() && o.right.shape() == o.wrong.shape() &&
                    count % o.right.size(0) == 0 && length == o.right.size(1);
  check(fits, "margin", "the tokens of the margin have the shape ",
        o.right.defined() ? o.right.shape() : Shape(), ", but the batch has ", count,
        " sequences of ", length, " tokens");
  const Tensor measured = ne(repeat_rows(o.right, count / o.right.size(0)), double(kIgnored));
  const auto logits_of = [&](const Tensor& tokens) {
    const Tensor all = repeat_rows(tokens, count / tokens.size(0));
    return squeeze(gather(logits, 2, unsqueeze(masked_fill(all, logical_not(measured), 0), -1)),
                   -1);  // [B, T]
  };
  const Tensor difference = logits_of(o.right) - logits_of(o.wrong);
  return sum(masked_fill(difference, logical_not(measured), 0), {1}) /
         sum(to(measured, logits.dtype()), {1});
}

}  // namespace

double accuracy(const Tensor& logits, const Batch& batch, const Objective& o) {
  const Tensor right = o.kind == Objective::kMargin ? o.right : counted_targets(batch);
  const Tensor is_right = eq(argmax(logits, -1), right);  // kIgnored is not a token
  return sum(to(is_right, float64)).item() / sum(to(ne(right, double(kIgnored)), float64)).item();
}

std::vector<double> gains_over_frequencies(const Transformer& model, const Batch& batch) {
  const NoGrad guard;
  const Tensor counted = counted_targets(batch);
  const auto losses =
      to_doubles(cross_entropy(model(batch.inputs), counted, {.reduction = Reduction::kNone}));
  const auto targets = counted.to_vector<std::int64_t>();
  std::map<std::int64_t, double> frequency;
  double total = 0;
  for (const std::int64_t target : targets)
    if (target != kIgnored) ++frequency[target], ++total;
  // The frequencies of a sample predict this sample better than the frequencies of the task do
  // (Miller 1955).
  const double bias = (double(frequency.size()) - 1) / (2 * total);
  const auto length = std::size_t(batch.targets.size(1));
  std::vector<double> gains;
  for (std::size_t begin = 0; begin < targets.size(); begin += length) {
    double gain = 0, count = 0;
    for (std::size_t i = begin; i < begin + length; ++i)
      if (targets[i] != kIgnored)
        gain -= losses[i] + std::log(frequency[targets[i]] / total), ++count;
    if (count > 0) gains.push_back(gain / count + bias);
  }
  return gains;
}

Objective margin(const Transformer& model, const Batch& batch,
                 const std::vector<std::int64_t>& positions) {
  const NoGrad guard;
  const Tensor logits = to(model(batch.inputs), float64);
  const std::int64_t count = logits.size(0), length = logits.size(1), classes = logits.size(2);
  check<ValueError>(classes >= 2, "margin", "needs a model that predicts at least 2 tokens, got ",
                    classes);
  const Tensor targets = batch.targets, has_target = ne(targets, double(kIgnored)),
               asked = positions.empty() ? ne(counted_targets(batch), double(kIgnored))
                                         : expand(is_at(positions, length), targets.shape());
  auto measured = contiguous(asked).to_vector<bool>();
  for (std::int64_t b = 0; b < count; ++b) {
    // A sequence has no margin in its padding.
    const auto first = measured.begin() + b * length, end = first + batch.tokens_of(b);
    std::fill(end, first + length, false);
    if (std::find(first, end, true) == end) *(end - 1) = true;
  }
  const Tensor elsewhere = logical_not(from_data(measured, targets.shape()));
  const Tensor right = where(has_target, targets, argmax(logits, -1)),
               is_right = eq(unsqueeze(right, -1), arange(classes)),
               wrong = argmax(masked_fill(logits, is_right, -HUGE_VAL), -1);
  return {.kind = Objective::kMargin,
          .positions = positions,
          .right = masked_fill(right, elsewhere, double(kIgnored)),
          .wrong = masked_fill(wrong, elsewhere, double(kIgnored))};
}

ObjectiveAt at_positions(const Objective& o, const Batch& batch) {
  const std::int64_t length = batch.inputs.size(1);
  std::set<std::int64_t> needed(o.positions.begin(), o.positions.end());
  const bool is_margin = o.kind == Objective::kMargin;
  if (is_margin || (o.is_of_targets() && needed.empty())) {
    needed.clear();
    const auto tokens = (is_margin ? o.right : batch.targets).to_vector<std::int64_t>();
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] != kIgnored) needed.insert(std::int64_t(i) % length);
  }
  if (needed.empty()) needed.insert(length - 1);
  ObjectiveAt at{{needed.begin(), needed.end()}, {}, o};
  const Tensor index = from_data(at.positions, {std::ssize(at.positions)});
  const auto columns = [&](const Tensor& x) { return x.defined() ? index_select(x, 1, index) : x; };
  at.batch.inputs = columns(batch.inputs), at.batch.targets = columns(batch.targets);
  at.batch.counted = columns(batch.counted);
  at.objective.right = columns(o.right), at.objective.wrong = columns(o.wrong);
  // L includes every position that is listed, even if the accuracy does not count the position.
  at.objective.positions.clear();
  for (const std::int64_t p : o.positions)
    if (!is_margin) at.objective.positions.push_back(std::distance(needed.begin(), needed.find(p)));
  if (!is_margin && !o.is_of_targets() && o.positions.empty()) at.objective.positions = {0};
  return at;
}

Tensor objective_values(const Tensor& logits, const Batch& batch, const Objective& o) {
  const std::int64_t length = logits.size(1), classes = logits.size(2);
  for (const std::int64_t p : o.positions) check_position(p, length);
  if (o.kind == Objective::kMargin) return margins(logits, o);
  if (o.kind == Objective::kLogLikelihood) return -mean_of_targets(logits, batch, o);
  if (o.is_of_targets()) return mean_of_targets(logits, batch, o);
  std::vector<std::int64_t> positions = o.positions;
  if (positions.empty()) positions = {length - 1};
  Tensor at = index_select(logits, 1, from_data(positions, {std::ssize(positions)}));
  if (o.kind == Objective::kLogProbability) at = log_softmax(at, -1);
  if (o.kind == Objective::kLogit) at = at - mean(at, {-1}, true);
  const Tensor there = mean(at, {1});           // [B, P, classes] -> [B, classes]
  const auto logit = [&](std::int64_t token) {  // returns [B]
    check<ValueError>(token >= 0 && token < classes, "study", "token ", token,
                      " is not one of the ", classes, " tokens that the model predicts");
    return select(there, 1, token);
  };
  return o.kind == Objective::kDifference ? logit(o.a) - logit(o.b) : logit(o.a);
}

}  // namespace heed::nn
