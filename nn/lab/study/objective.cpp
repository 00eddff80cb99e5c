#include "nn/lab/study/objective.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autograd/ops/ops.h"
#include "nn/lab/study/forward_passes.h"

namespace heed::lab {

using namespace autograd;

namespace {

void check_position(Index position, Index length) {
  check<ValueError>(position >= 0 && position < length, "study", "position ", position,
                    " is outside the sequence of ", length);
}

// Returns [T] bool8: true at these positions.
Tensor is_at(const std::vector<Index>& positions, Index length) {
  std::vector<bool> is(std::size_t(length), false);
  for (const Index p : positions) check_position(p, length), is[std::size_t(p)] = true;
  return from_data(is, {length});
}

// Returns the targets that count in the accuracy, and kIgnored elsewhere.
Tensor counted_targets(const Batch& batch) {
  if (!batch.counted.defined()) return batch.targets;
  return masked_fill(batch.targets, logical_not(batch.counted), double(kIgnored));
}

// Returns the targets of L, and kIgnored elsewhere, [B, T].
Tensor targets_of(const Objective& o, const Batch& batch) {
  if (o.kind == Objective::kPair) return o.right;
  if (o.positions.empty()) return counted_targets(batch);
  return masked_fill(batch.targets, logical_not(is_at(o.positions, batch.targets.size(1))),
                     double(kIgnored));
}

// Returns the mean cross-entropy over the targets of L, [B].
Tensor mean_of_targets(const Tensor& logits, const Batch& batch, const Objective& o) {
  const Tensor targets = targets_of(o, batch), counts = ne(targets, double(kIgnored)),
               number = sum(to(counts, float64), {1});  // [B]
  check<ValueError>(max(number).item() > 0, "study",
                    o.positions.empty() ? "the sequence has" : "the positions of L have",
                    " no target, so the loss is undefined; use at least 2 tokens (the target of "
                    "the last one is unknown), other positions, or a logit");
  const Tensor each = cross_entropy(logits, targets, {.reduction = Reduction::kNone}),
               divisor = masked_fill(number, eq(number, 0), 1);
  return sum(masked_fill(each, logical_not(counts), 0), {1}) * to(1 / divisor, logits.dtype());
}

Tensor pair_values(const Tensor& logits, const Objective& o) {
  const Index count = logits.size(0), length = logits.size(1);
  const bool fits = o.right.defined() && o.wrong.defined() && o.right.shape() == o.wrong.shape() &&
                    count % o.right.size(0) == 0 && length == o.right.size(1);
  check(fits, "study", "the tokens of the pairs have the shape ",
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
  const Tensor right = o.kind == Objective::kPair ? o.right : counted_targets(batch);
  const Tensor is_right = eq(argmax(logits, -1), right);  // kIgnored is not a token
  return sum(to(is_right, float64)).item() / sum(to(ne(right, double(kIgnored)), float64)).item();
}

std::vector<double> gains_over_frequencies(const Transformer& model, const Batch& batch) {
  const NoGrad guard;
  const Tensor counted = counted_targets(batch);
  const auto losses =
      to_doubles(cross_entropy(model(batch.inputs), counted, {.reduction = Reduction::kNone}));
  const auto targets = counted.to_vector<std::int64_t>();
  std::map<Index, double> frequency;
  double total = 0;
  for (const Index target : targets)
    if (target != kIgnored) ++frequency[target], ++total;
  double entropy = 0;
  for (const auto& [target, count] : frequency) entropy -= count / total * std::log(count / total);
  // The frequencies of a sample predict this sample better than the frequencies of the task do
  // (Miller 1955), which predict it at least as well as equal probabilities.
  const double kinds = double(frequency.size()),
               bias = std::min((kinds - 1) / (2 * total), std::log(kinds) - entropy);
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

Objective prompt_objective(const Transformer& model, const Batch& prompt) {
  const NoGrad guard;
  const Index last = prompt.inputs.size(1) - 1, target = Index(prompt.targets.at({0, last}));
  if (target != kIgnored) return {Objective::kLogProbability, target, 0, {last}};
  const Tensor best = argmax(select(model(prompt.inputs), 1, last), -1);
  return {Objective::kLogProbability, best.item<std::int64_t>(), 0, {last}};
}

std::vector<double> counts_of(const Objective& o, const Batch& batch) {
  if (o.kind != Objective::kPair && !o.is_of_targets())
    return std::vector<double>(std::size_t(batch.inputs.size(0)), 1);
  return to_doubles(sum(to(ne(targets_of(o, batch), double(kIgnored)), float64), {1}));
}

ObjectiveAt at_positions(const Objective& o, const Batch& batch) {
  const Index length = batch.inputs.size(1);
  std::set<Index> needed(o.positions.begin(), o.positions.end());
  const bool is_pair = o.kind == Objective::kPair;
  if (is_pair || (o.is_of_targets() && needed.empty())) {
    needed.clear();
    const auto tokens = contiguous(targets_of(o, batch)).to_vector<std::int64_t>();
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] != kIgnored) needed.insert(Index(i) % length);
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
  for (const Index p : o.positions)
    if (!is_pair) at.objective.positions.push_back(std::distance(needed.begin(), needed.find(p)));
  if (!is_pair && !o.is_of_targets() && o.positions.empty()) at.objective.positions = {0};
  return at;
}

Tensor objective_values(const Tensor& logits, const Batch& batch, const Objective& o) {
  const Index length = logits.size(1), classes = logits.size(2);
  for (const Index p : o.positions) check_position(p, length);
  if (o.kind == Objective::kPair) return pair_values(logits, o);
  if (o.kind == Objective::kLogLikelihood) return -mean_of_targets(logits, batch, o);
  if (o.is_of_targets()) return mean_of_targets(logits, batch, o);
  std::vector<Index> positions = o.positions;
  if (positions.empty()) positions = {length - 1};
  Tensor at = index_select(logits, 1, from_data(positions, {std::ssize(positions)}));
  if (o.kind == Objective::kLogProbability) at = log_softmax(at, -1);
  if (o.kind == Objective::kLogit) at = at - mean(at, {-1}, true);
  const Tensor there = mean(at, {1});    // [B, P, classes] -> [B, classes]
  const auto logit = [&](Index token) {  // returns [B]
    check<ValueError>(token >= 0 && token < classes, "study", "token ", token,
                      " is not one of the ", classes, " tokens that the model predicts");
    return select(there, 1, token);
  };
  return o.kind == Objective::kDifference ? logit(o.a) - logit(o.b) : logit(o.a);
}

}  // namespace heed::lab
