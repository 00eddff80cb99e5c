#include "nn/study/objective.h"

#include <cmath>
#include <map>
#include <set>
#include <span>

#include "autograd/ops/ops.h"
#include "nn/study/forward_passes.h"

namespace heed::nn {

using namespace autograd;

namespace {

void check_position(std::int64_t position, std::int64_t length) {
  check<ValueError>(position >= 0 && position < length, "study", "position ", position,
                    " is outside the sequence of ", length);
}

// Returns log p - log(1 - p) of the target at each position [B, T], 0 where `targets` is kIgnored.
Tensor log_odds(const Tensor& logits, const Tensor& targets) {
  const Tensor ignored = eq(targets, double(kIgnored));
  const Tensor index = unsqueeze(masked_fill(targets, ignored, 0), -1);  // [B, T, 1]
  const Tensor is_target = eq(index, arange(logits.size(-1)));           // [B, T, classes]
  const Tensor target = squeeze(gather(logits, 2, index), -1);
  const Tensor others = logsumexp(masked_fill(logits, is_target, -HUGE_VAL), {-1});
  return masked_fill(target - others, ignored, 0);
}

// Returns the mean of a quantity of the targets over the targets that L counts, [B]: the
// cross-entropy, or the log odds for kLogOdds.
Tensor mean_of_targets(const Tensor& logits, const Batch& batch, const Objective& o) {
  const std::int64_t count = batch.targets.size(0), length = batch.targets.size(1);
  auto targets = batch.targets.to_vector<std::int64_t>();
  std::vector<bool> counts(targets.size(), true);
  if (o.kind == Objective::kLogOdds && o.positions.empty() && batch.counted.defined())
    counts = batch.counted.to_vector<bool>();
  const std::set<std::int64_t> chosen(o.positions.begin(), o.positions.end());
  std::vector<double> weights;  // [B], 1 / number of targets at the chosen positions
  for (std::int64_t b = 0; b < count; ++b) {
    std::int64_t counted = 0;
    for (std::int64_t t = 0; t < length; ++t) {
      std::int64_t& target = targets[std::size_t(b * length + t)];
      if (!counts[std::size_t(b * length + t)] || (!chosen.empty() && !chosen.contains(t)))
        target = kIgnored;
      counted += target != kIgnored;
    }
    check<ValueError>(counted > 0, "study",
                      chosen.empty() ? "the sequence has" : "the positions of L have",
                      " no target, so the loss is undefined; use at least 2 tokens (the target of "
                      "the last one is unknown), other positions, or a logit");
    weights.push_back(1 / double(counted));
  }
  const Tensor counted = from_data(targets, batch.targets.shape());
  const Tensor each = o.kind == Objective::kLogOdds
                          ? log_odds(logits, counted)
                          : cross_entropy(logits, counted, {.reduction = Reduction::kNone});
  return sum(each, {1}) * to(from_data(weights, {count}), logits.dtype());
}

// Returns the token with the largest logit except `left_out`. The logits are those of one position.
std::int64_t largest_but(std::span<const double> logits, std::int64_t left_out) {
  std::int64_t best = left_out == 0 ? 1 : 0;
  for (std::int64_t c = 0; c < std::ssize(logits); ++c)
    if (c != left_out && logits[std::size_t(c)] > logits[std::size_t(best)]) best = c;
  return best;
}

Tensor margins(const Tensor& logits, const Objective& o) {
  const std::int64_t count = logits.size(0), length = logits.size(1);
  const bool fits = o.right.defined() && o.wrong.defined() && o.right.shape() == o.wrong.shape() &&
                    count % o.right.size(0) == 0 && length == o.right.size(1);
  check(fits, "margin", "the tokens of the margin have the shape ",
        o.right.defined() ? o.right.shape() : Shape(), ", but the batch has ", count,
        " sequences of ", length, " tokens");
  const std::int64_t copies = count / o.right.size(0);
  const Tensor measured = ne(o.right, double(kIgnored));
  const auto logits_of = [&](const Tensor& tokens) {
    const Tensor index = repeat_rows(masked_fill(tokens, logical_not(measured), 0), copies);
    return squeeze(gather(logits, 2, unsqueeze(index, -1)), -1);  // [B, T]
  };
  const Tensor here = repeat_rows(measured, copies);  // [B, T]
  const Tensor difference = logits_of(o.right) - logits_of(o.wrong);
  return sum(masked_fill(difference, logical_not(here), 0), {1}) /
         sum(to(here, logits.dtype()), {1});
}

// Returns the targets that count in the accuracy, and kIgnored elsewhere.
Tensor counted_targets(const Batch& batch) {
  if (!batch.counted.defined()) return batch.targets;
  return masked_fill(batch.targets, logical_not(batch.counted), double(kIgnored));
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
  // The frequencies of a sample predict it better than the frequencies of the task would (Miller
  // 1955).
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
  const std::vector<double> values = contiguous(logits).to_vector<double>();
  const auto targets = batch.targets.to_vector<std::int64_t>();
  const auto counted = batch.counted.to_vector<bool>();
  std::vector<std::int64_t> right(targets.size(), kIgnored), wrong(targets.size(), kIgnored);
  for (std::int64_t b = 0; b < count; ++b) {
    std::vector<std::int64_t> measured = positions;
    for (std::int64_t t = 0; t < length && positions.empty(); ++t) {
      const auto i = std::size_t(b * length + t);
      if (counted[i] && targets[i] != kIgnored) measured.push_back(t);
    }
    // A sequence has no margin in its padding.
    std::erase_if(measured, [&](std::int64_t t) { return t < length && t >= batch.tokens_of(b); });
    if (measured.empty()) measured = {batch.tokens_of(b) - 1};
    for (const std::int64_t t : measured) {
      check_position(t, length);
      const auto i = std::size_t(b * length + t);
      const std::span<const double> here(values.data() + std::ptrdiff_t(i) * classes,
                                         std::size_t(classes));
      right[i] = targets[i] != kIgnored ? targets[i] : largest_but(here, -1);
      wrong[i] = largest_but(here, right[i]);
    }
  }
  const Shape shape = batch.targets.shape();
  return {.kind = Objective::kMargin,
          .positions = positions,
          .right = from_data(right, shape),
          .wrong = from_data(wrong, shape)};
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
  // A listed position counts even if it does not count in the accuracy.
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
