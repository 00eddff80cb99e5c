#include "nn/lab/train/evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "autograd/graph/first_non_finite.h"
#include "autograd/ops/ops.h"
#include "nn/optim/first_non_finite.h"

namespace heed::lab {

using namespace autograd;

namespace {

// Sums over all sequences evaluated so far.
struct Sums {
  struct Row {
    double targets, gap;  // number of targets; mean loss minus optimal loss
  };
  double loss = 0, optimal = 0;
  Index sequences = 0, right = 0, counted = 0;
  std::vector<double> position_loss, position_optimal;
  std::vector<Index> position_targets;
  std::vector<Row> rows;  // one per sequence that has targets
  std::map<std::string, double> references;
  bool knows_optimal = true, knows_positions = true;
  TextSize text = {};  // size of the targets, if the task is on a text
  const TaskInfo& info;

  explicit Sums(const TaskInfo& task) : info(task) {}
  void add(const Batch& batch, const Tensor& logits);
  Evaluation means() const;
};

void Sums::add(const Batch& batch, const Tensor& logits) {
  const Tensor loss_each = cross_entropy(logits, batch.targets, {.reduction = Reduction::kNone});
  const auto losses = to(loss_each, float64).to_vector<double>();
  const auto guesses = argmax(logits, -1).to_vector<std::int64_t>();
  const auto targets = batch.targets.to_vector<std::int64_t>();
  const auto counts = batch.counted.to_vector<bool>();
  const auto batch_size = std::size_t(batch.inputs.size(0));
  const auto length = std::size_t(batch.inputs.size(1));
  position_loss.resize(length), position_targets.resize(length), position_optimal.resize(length);
  knows_positions = knows_positions && batch.position_optimal.size() == losses.size();
  knows_optimal = knows_optimal && batch.optimal.size() == batch_size;
  sequences += Index(batch_size);
  for (std::size_t b = 0; b < batch_size; ++b) {
    double row_loss = 0, row_targets = 0;
    Index row_counted = 0, row_right = 0;
    for (std::size_t t = 0; t < length; ++t) {
      const std::size_t i = b * length + t;
      if (targets[i] == kIgnored) continue;
      row_loss += losses[i];
      row_targets += 1;
      if (!info.data.empty()) text.add(info.vocabulary, targets[i]);
      position_loss[t] += losses[i];
      if (knows_positions) position_optimal[t] += batch.position_optimal[i];
      ++position_targets[t];
      if (!counts[i]) continue;
      ++row_counted;
      row_right += guesses[i] == targets[i];
    }
    counted += info.whole_answers ? row_counted > 0 : row_counted;
    right += info.whole_answers ? row_counted > 0 && row_right == row_counted : row_right;
    if (row_targets == 0) continue;
    const double best = knows_optimal ? batch.optimal[b] : 0;
    loss += row_loss;
    optimal += best * row_targets;
    rows.push_back({row_targets, row_loss / row_targets - best});
    for (const auto& [name, values] : batch.references) references[name] += values[b] * row_targets;
  }
}

Evaluation Sums::means() const {
  double n = 0;
  for (const Row& row : rows) n += row.targets;
  Evaluation e;
  e.sequences = sequences;
  e.tokens = Index(n);
  e.loss = loss / n;
  e.text = text_quality(loss, text);
  if (knows_optimal) e.optimal = optimal / n;
  if (counted > 0) e.accuracy = double(right) / double(counted);
  for (const auto& [name, value] : references) e.references.emplace_back(name, value / n);
  const auto by_position = [&](const std::vector<double>& sums) {
    std::vector<double> means;
    for (std::size_t t = 0; t < sums.size(); ++t)
      means.push_back(position_targets[t] ? sums[t] / double(position_targets[t])
                                          : std::numeric_limits<double>::quiet_NaN());
    return means;
  };
  e.position_loss = by_position(position_loss);
  if (knows_positions) e.position_optimal = by_position(position_optimal);
  if (rows.size() > 1) {
    const double mean = e.loss - e.optimal.value_or(0);
    double squares = 0;
    for (const Row& row : rows) squares += std::pow(row.targets * (row.gap - mean), 2);
    const double count = double(rows.size());
    e.standard_error = std::sqrt(squares * count / (count - 1)) / n;
  }
  return e;
}

// Runs the batch again, and returns the first op that makes a NaN or an infinity.
std::string trouble_in(const Transformer& model, const Batch& batch) {
  const FirstNonFinite finder;
  cross_entropy(model(batch.inputs), batch.targets);
  return "the first result that is not finite: " + finder.text();
}

// Evaluates the model on `total` sequences. batch(first, count) returns some of them, and is called
// in their order.
template <class F>
Evaluation evaluate_parts(const Transformer& model, const TaskInfo& info, Index total, F batch,
                          const ProgressCallback& progress) {
  const NoGrad guard;
  const Index chunk = evaluation_chunk(model, info);
  Sums sums(info);
  std::string trouble;
  for (Index first = 0; first < total; first += chunk) {
    if (progress) progress(first, total);
    const Batch part = batch(first, std::min(chunk, total - first));
    sums.add(part, model(part.inputs));
    if (trouble.empty() && !std::isfinite(sums.loss)) trouble = trouble_in(model, part);
  }
  Evaluation e = sums.means();
  e.trouble = trouble;
  return e;
}

}  // namespace

void TextSize::add(const Vocabulary& vocabulary, Index id) {
  const std::string& symbol = vocabulary.symbols()[std::size_t(id)];
  ++tokens;
  bytes += std::ssize(symbol);
  characters += std::count_if(symbol.begin(), symbol.end(),
                              [](char c) { return (c & 0xC0) != 0x80; });  // first bytes
}

TextQuality text_quality(double nats, const TextSize& size) {
  if (size.tokens == 0) return {};
  const double bits = nats / std::log(2.0);
  return {.perplexity = std::exp(nats / double(size.tokens)),
          .bits_per_character = bits / double(size.characters),
          .bits_per_byte = bits / double(size.bytes)};
}

bool leaks(const Evaluation& e) {
  // Rounding error of a loss in float32. It matters if optimal - loss is the same for all
  // sequences, because the standard error is then 0.
  constexpr double kRounding = 1e-6;
  return e.optimal && e.standard_error && *e.optimal - e.loss > 4 * *e.standard_error + kRounding;
}

std::string leak_text(const Evaluation& e) {
  const double below = *e.optimal - e.loss;
  return fmt::format(
      "impossible: the loss {:.4f} is {:.4f} nats ({:.0f} standard errors) below the best possible "
      "{:.4f}; the model reads the tokens that it should predict",
      e.loss, below, below / *e.standard_error, *e.optimal);
}

// Limits the memory of a forward pass: the scores of one layer and the logits, in float64 and with
// up to two copies, take at most about 256 MB. The loss of a sequence does not depend on the number
// of sequences in its forward pass.
Index evaluation_chunk(const Transformer& model, const TaskInfo& info) {
  constexpr double kBytes = 256e6, kMost = 64;
  const auto T = double(info.context);
  const double each =
      3 * 8 * T * (T * double(model.options.attention.heads) + double(info.classes));
  return Index(std::clamp(kBytes / each, 1.0, kMost));
}

Index final_evaluation_size(const Task& task) {
  constexpr Index kMostPositions = 1'000'000;
  const Index most = std::max<Index>(1, kMostPositions / task.info().context);
  return std::min(most, task.evaluation_size());
}

Evaluation evaluate(const Transformer& model, const Task& task, Index sequences,
                    const ProgressCallback& progress) {
  const Index total =
      sequences > 0 ? std::min(sequences, task.evaluation_size()) : final_evaluation_size(task);
  task.prepare_evaluation([&] {
    if (progress) progress(0, 0);
  });
  const auto part = [&](Index first, Index count) { return task.evaluation(first, count); };
  return evaluate_parts(model, task.info(), total, part, progress);
}

Evaluation evaluate_training(const Transformer& model, const Task& task, Index sequences,
                             const ProgressCallback& progress) {
  constexpr std::uint32_t kSeed = 0x7EA15EED;
  Generator g(kSeed);
  const Index size = task.training_size(), total = std::min(sequences, size);
  // If the number of training sequences is known, one call returns distinct ones.
  const bool known = size < std::numeric_limits<Index>::max();
  const Batch all = known ? task.sample(total, g) : Batch{};
  const auto part = [&](Index first, Index count) {
    if (!known) return task.sample(count, g);
    Batch some;
    for (const auto tensor : {&Batch::inputs, &Batch::targets, &Batch::counted})
      some.*tensor = contiguous(slice(all.*tensor, 0, first, first + count));
    return some;
  };
  return evaluate_parts(model, task.info(), total, part, progress);
}

std::vector<std::optional<TokenScore>> score(const Transformer& model, const Tensor& ids) {
  const NoGrad guard;
  const Tensor logits = to(model(ids), float64);
  const std::string bad = first_non_finite(logits);
  check<NumericError>(bad.empty(), "score", "a logit [sequence, position, class] is ", bad,
                      "; the weights are damaged, or their training diverged: use other weights");
  const auto log_p = log_softmax(logits, -1).to_vector<double>();
  const auto tokens = ids.to_vector<std::int64_t>();
  const auto classes = std::size_t(logits.size(-1));
  std::vector<std::optional<TokenScore>> scores(tokens.size());
  for (std::size_t t = 1; t < tokens.size(); ++t) {
    if (std::size_t(tokens[t]) >= classes) continue;
    const auto row = std::span(log_p).subspan((t - 1) * classes, classes);
    const double own = row[std::size_t(tokens[t])];
    scores[t] = {own, 1 + std::ranges::count_if(row, [&](double x) { return x > own; })};
  }
  return scores;
}

}  // namespace heed::lab
