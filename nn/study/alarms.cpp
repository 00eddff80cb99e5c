#include "nn/study/alarms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

// Sets the numbers of a head that need no gradients. All arrays are [B, H, T, T].
void read_attention(HeadHealth& head, const Batch& batch, const std::vector<double>& raw,
                    const std::vector<double>& scores, const std::vector<double>& pattern,
                    std::int64_t heads) {
  const std::int64_t length = batch.inputs.size(1);
  double queries = 0, saturated = 0;
  head.largest_score = 0;
  for (std::int64_t b = 0; b < batch.inputs.size(0); ++b)
    for (std::int64_t q = 0; q < std::min(length, batch.tokens_of(b)); ++q) {
      const auto row = std::size_t(((b * heads + head.head) * length + q) * length);
      double keys = 0, gain = 0;
      for (std::size_t cell = row; cell < row + std::size_t(length); ++cell) {
        if (scores[cell] == -HUGE_VAL) continue;
        ++keys;
        gain += pattern[cell] * (1 - pattern[cell]);
        head.largest_score = std::max(head.largest_score, std::abs(raw[cell]));
      }
      if (keys < 2) continue;
      ++queries;
      saturated += gain < kLowGain;
    }
  head.saturated_queries = saturated / queries;
}

}  // namespace

std::vector<HeadHealth> head_health(const Transformer& model, const Batch& batch) {
  const auto layers = std::int64_t(model.blocks.size());
  Probe probe;
  std::vector<Tensor> weights;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (const char* site : kSites) probe.record(block_site(layer, site));
    AttentionWeights w = model.blocks[std::size_t(layer)].attn.weights;
    w.visit([&](std::string_view, const Tensor& t) {
      if (t.defined()) weights.push_back(t);
    });
  }
  const GradMode recording(true);
  const Tensor loss = cross_entropy(model(batch.inputs, {.probe = &probe}), batch.targets);
  const std::vector<Tensor> gradients = grad(loss, weights);
  std::vector<HeadHealth> all;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    std::vector<double> arrays[std::size(kSites)];
    for (std::size_t i = 0; i < std::size(kSites); ++i)
      arrays[i] = to(probe.value(block_site(layer, kSites[i])), float64).to_vector<double>();
    const MultiHeadAttention& attention = model.blocks[std::size_t(layer)].attn;
    for (const WeightGradientNorms& g : weight_gradient_norms(attention, weights, gradients)) {
      const auto index = std::int64_t(all.size()) % attention.options.heads;
      HeadHealth& head = all.emplace_back(
          HeadHealth{{layer, index}, 0, g.dW_Q, g.dW_K, g.dW_V, 0});
      read_attention(head, batch, arrays[0], arrays[1], arrays[2], attention.options.heads);
    }
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

// Limits memory and time: the arrays of all layers have at most about 2 million cells each.
Batch HeadAlarms::batch() const {
  constexpr double kCells = 2e6, kSequences = 16;
  const Transformer::Options& o = trainer_.model.options;
  const double squares = kCells / double(o.layers * o.attention.heads);  // tokens^2 of a head
  const double tokens = std::min(double(o.context), std::max(2.0, std::floor(std::sqrt(squares))));
  const double most = std::clamp(squares / (tokens * tokens), 1.0, kSequences);
  const Task& task = *trainer_.task;
  Batch batch = task.evaluation(
      0, std::min({std::int64_t(most), trainer_.config().eval_batch, task.evaluation_size()}));
  batch.inputs = slice(batch.inputs, 1, 0, std::int64_t(tokens));
  batch.targets = slice(batch.targets, 1, 0, std::int64_t(tokens));
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
    const std::string saturation = fmt::format(
        "the softmax is saturated (softmax_gain below {}) for {:.0f} % of its queries", kLowGain,
        100 * head.saturated_queries);
    if (is_stuck(head, loss))
      add("stuck", fmt::format("{}, and its queries and keys get almost no gradient (|dW_Q| {:.2g}, "
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
