#include "nn/study/alarms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"
#include "nn/study/weight_gradients.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr double kLowGain = 0.02, kSaturatedShare = 0.95, kNoGradient = 1e-3;
constexpr double kHighLoss = 0.2, kLeastFall = 0.01;
constexpr double kLargestScore = 1e3, kLargestScoreBfloat16 = 1e2;
constexpr double kLargestEarlyScore = 50, kEarlySaturatedShare = 0.25;

constexpr std::pair<const char*, double HeadHealth::*> kHealth[] = {
    {"saturated_queries", &HeadHealth::saturated_queries},
    {"dW_Q", &HeadHealth::dW_Q},
    {"dW_K", &HeadHealth::dW_K},
    {"dW_V", &HeadHealth::dW_V},
    {"largest_score", &HeadHealth::largest_score}};

constexpr const char* kSites[] = {"attn.hook_attn_scores_raw", "attn.hook_attn_scores",
                                  "attn.hook_pattern"};

// Returns the numbers of a head that need no gradients. Gradients are 0.
HeadHealth read_attention(const Probe& probe, const HeadIndex& index, const Batch& batch) {
  std::vector<double> arrays[std::size(kSites)];  // [B, T, T] each
  for (std::size_t i = 0; i < std::size(kSites); ++i) {
    const Tensor all = probe.value(block_site(index.layer, kSites[i]));
    arrays[i] = to(select(all, 1, index.head), float64).to_vector<double>();
  }
  const auto& [raw, scores, pattern] = arrays;
  const auto length = std::size_t(batch.inputs.size(1));
  double queries = 0, saturated = 0, largest = 0;
  for (std::int64_t b = 0; b < batch.inputs.size(0); ++b)
    for (std::size_t q = 0; q < std::min(length, std::size_t(batch.tokens_of(b))); ++q) {
      const std::size_t row = (std::size_t(b) * length + q) * length;
      double keys = 0, gain = 0;
      for (std::size_t cell = row; cell < row + length; ++cell) {
        if (scores[cell] == -HUGE_VAL) continue;
        ++keys;
        gain += pattern[cell] * (1 - pattern[cell]);
        largest = std::max(largest, std::abs(raw[cell]));
      }
      if (keys < 2) continue;
      ++queries;
      saturated += gain < kLowGain;
    }
  return {index, saturated / queries, 0, 0, 0, largest};
}

}  // namespace

std::vector<HeadHealth> head_health(const Transformer& model, const Batch& batch) {
  const std::vector<HeadIndex> heads =
      all_heads(std::int64_t(model.blocks.size()), model.options.attention.heads);
  std::optional<Probe> probe(std::in_place);
  std::vector<Tensor> weights;
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    for (const char* site : kSites) probe->record(block_site(std::int64_t(layer), site));
    AttentionWeights w = model.blocks[layer].attn.weights;
    w.visit([&](std::string_view, const Tensor& t) {
      if (t.defined()) weights.push_back(t);
    });
  }
  const GradMode recording(true);
  const Tensor loss = cross_entropy(model(batch.inputs, {.probe = &*probe}), batch.targets);
  std::vector<HeadHealth> all;
  for (const HeadIndex& head : heads) all.push_back(read_attention(*probe, head, batch));
  probe.reset();  // frees its arrays before the backward pass, which then records none
  const std::vector<Tensor> gradients = grad(loss, weights);
  auto head = all.begin();
  for (const Block& block : model.blocks)
    for (const WeightGradientNorms& g : weight_gradient_norms(block.attn, weights, gradients)) {
      head->dW_Q = g.dW_Q, head->dW_K = g.dW_K, head->dW_V = g.dW_V;
      ++head;
    }
  return all;
}

LossState loss_state(const std::vector<MetricsRow>& history) {
  std::vector<MetricsRow> last;  // the last four evaluations, newest first
  for (auto row = history.rbegin(); row != history.rend() && last.size() < 4; ++row)
    if (!std::isnan(row->eval_loss)) last.push_back(*row);
  if (last.empty()) return LossState::kLow;
  const double loss = last[0].eval_loss, optimal = last[0].eval_optimal;
  if (std::isnan(optimal))
    return last.size() == 4 && loss > (1 - kLeastFall) * last[3].eval_loss ? LossState::kStalled
                                                                           : LossState::kLow;
  const MetricsRow& first = history.front();
  const double start = first.step == 0 ? first.eval_loss : first.loss;
  return loss - optimal > kHighLoss * (start - optimal) ? LossState::kHigh : LossState::kLow;
}

bool is_stuck(const HeadHealth& head, LossState loss) {
  const double least = kNoGradient * head.dW_V;
  return loss != LossState::kLow && head.saturated_queries >= kSaturatedShare &&
         head.dW_Q < least && head.dW_K < least;
}

bool is_exploding(const HeadHealth& head, LossState loss, Precision matmul) {
  const double limit = matmul == Precision::kFloat32 ? kLargestScore : kLargestScoreBfloat16;
  return !(head.largest_score <= limit) ||
         (loss == LossState::kHigh && head.largest_score > kLargestEarlyScore &&
          head.saturated_queries >= kEarlySaturatedShare);
}

HeadAlarms::HeadAlarms(const RunFolder& folder, const Trainer& trainer)
    : trainer_(trainer), log_(folder, trainer.steps_done - (trainer.evaluated() ? 0 : 1)) {}

// Returns what may help, without options that the run uses already.
std::string HeadAlarms::advice() const {
  const MultiHeadAttention::Options& o = trainer_.config().model.attention;
  std::string text = "a smaller `lr`";
  if (o.scale != decltype(o.scale)(ScaleRule::kInvSqrtHead)) text += ", or `scale` 1/sqrt-d-head";
  if (!o.qk_norm) text += ", or `qk-norm`";
  return text + " may help";
}

// Limits time and memory: a quarter of a shard of a training batch, and about 500,000 cells in each
// array of attention patterns of all layers.
Batch HeadAlarms::batch() const {
  constexpr double kCells = 5e5, kSequences = 8, kShare = 4;
  const Transformer::Options& o = trainer_.model.options;
  const RunConfig& c = trainer_.config();
  const double squares = kCells / double(o.layers * o.attention.heads);  // tokens^2 of a head
  const double tokens = std::min(double(o.context), std::max(2.0, std::floor(std::sqrt(squares))));
  const double shard = double(c.batch / c.accumulate) / kShare;
  const double most = std::clamp(std::min(shard, squares / (tokens * tokens)), 1.0, kSequences);
  const Task& task = *trainer_.task;
  Batch batch =
      task.evaluation(0, std::min({std::int64_t(most), c.eval_batch, task.evaluation_size()}));
  batch.inputs = slice(batch.inputs, 1, 0, std::int64_t(tokens));
  batch.targets = slice(batch.targets, 1, 0, std::int64_t(tokens));
  for (std::int64_t& padding : batch.padding)
    padding = std::max<std::int64_t>(0, padding - (o.context - std::int64_t(tokens)));
  return batch;
}

std::vector<std::string> HeadAlarms::after_evaluation() {
  std::vector<HeadsRow> rows;
  std::vector<std::string> news;
  const LossState loss = loss_state(trainer_.history());
  const Precision matmul = trainer_.config().model.matmul;
  for (const HeadHealth& head : head_health(trainer_.model, batch())) {
    for (const auto& [name, value] : kHealth) rows.push_back({head, name, head.*value});
    const auto add = [&](std::string_view alarm, const std::string& why) {
      rows.push_back({head, alarm, 1});
      const std::string what = fmt::format("{} is {}", head_name(head), alarm);
      if (!reported_.insert(what).second) return;
      news.push_back(fmt::format("step {}: {}: {}; {}", trainer_.steps_done, what, why, advice()));
    };
    const std::string saturation =
        fmt::format("the softmax is saturated (softmax_gain below {}) for {:.0f} % of its queries",
                    kLowGain, 100 * head.saturated_queries);
    if (is_stuck(head, loss))
      add("stuck",
          fmt::format("{}, and its queries and keys get almost no gradient (|dW_Q| {:.2g}, "
                      "|dW_K| {:.2g}, |dW_V| {:.2g})",
                      saturation, head.dW_Q, head.dW_K, head.dW_V));
    if (is_exploding(head, loss, matmul))
      add("exploding",
          fmt::format("its largest |score| is {:.3g}, and {}", head.largest_score, saturation));
  }
  log_.append(trainer_.steps_done, rows);
  return news;
}

}  // namespace heed::nn
