#include "nn/study/alarms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"
#include "nn/study/forward_passes.h"
#include "nn/study/study.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr const char* kScores = "attn.hook_attn_scores";
constexpr const char* kRawScores = "attn.hook_attn_scores_raw";
constexpr const char* kPattern = "attn.hook_pattern";

// Sets kSaturatedQueries and kLargestScore of the heads of one layer.
void read_attention(std::vector<HeadReport>& heads, const Probe& probe, std::int64_t layer,
                    const Batch& batch) {
  const NoGrad guard;
  const auto values = [&](const char* site) { return probe.value(block_site(layer, site)); };
  const Tensor raw = values(kRawScores), A = to(values(kPattern), float64);  // [B, H, T, T]
  const Tensor is_query = unsqueeze(unsqueeze(holds_token(batch), 1), 3);    // [B, 1, T, 1]
  const Tensor visible = logical_and(ne(values(kScores), -HUGE_VAL), is_query);
  const Tensor several = gt(sum(to(visible, float64), {3}), 1.0);  // [B, H, T]
  const Tensor low = lt(sum(A * (1 - A), {3}), 0.02);
  const auto count = [](const Tensor& queries) { return sum(to(queries, float64), {0, 2}); };
  const Tensor saturated = count(logical_and(several, low)) / count(several);  // [H]
  const Tensor largest = max(abs(masked_fill(raw, logical_not(visible), 0)), {0, 2, 3});
  for (HeadReport& head : heads)
    if (head.layer == layer) {
      head[kSaturatedQueries] = saturated.at({head.head});
      head[kLargestScore] = largest.at({head.head});
    }
}

// Returns what may make the scores smaller and is not set yet.
std::string remedies(const MultiHeadAttention::Options& o) {
  std::vector<std::string> list = {"a smaller `lr`"};
  const ScaleRule* rule = std::get_if<ScaleRule>(&o.scale);
  if (!rule || *rule == ScaleRule::kNone) list.emplace_back("`scale` 1/sqrt-d-head");
  if (!o.qk_norm) list.emplace_back("`qk-norm`");
  return join(list, " or ");
}

}  // namespace

// Limits time and memory: about 500,000 cells in the attention patterns of all layers.
Batch measured_batch(const Trainer& t) {
  const RunConfig& c = t.config();
  const std::int64_t cells = 500'000 / (c.model.layers * c.model.attention.heads);
  const auto tokens = std::clamp<std::int64_t>(std::llround(std::sqrt(cells)), 1, c.model.context);
  const std::int64_t most =
      std::min({std::int64_t(8), c.batch / 4, cells / (tokens * tokens), c.eval_batch});
  Batch batch = t.task->evaluation(0, std::clamp<std::int64_t>(most, 1, t.task->evaluation_size()));
  const Tensor start = slice(batch.targets, 1, 0, tokens);
  if (sum(to(ne(start, double(kIgnored)), float64)).item() == 0)
    return t.task->evaluation(0, 1);  // the targets are at the end of the sequence
  for (Tensor* x : {&batch.inputs, &batch.targets}) *x = slice(*x, 1, 0, tokens);
  for (std::int64_t& padding : batch.padding)
    padding = std::max<std::int64_t>(0, padding - (c.model.context - tokens));
  return batch;
}

std::vector<HeadReport> head_health(const Transformer& model, const Batch& batch) {
  // Frozen weights get no gradient. In a copy of the model, all weights require gradients.
  if (std::ranges::any_of(parameters(model),
                          [](const NamedTensor& p) { return !p.tensor.requires_grad(); }))
    return head_health(clone(model), batch);
  std::optional<Probe> probe(std::in_place);
  std::vector<Tensor> weights;
  const auto layers = std::int64_t(model.blocks.size());
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (const char* site : {kScores, kRawScores, kPattern}) probe->record(block_site(layer, site));
    for (const NamedTensor& p : parameters(model.blocks[std::size_t(layer)].attn))
      weights.push_back(p.tensor);
  }
  const GradMode recording(true);
  const Tensor loss = cross_entropy(model(batch.inputs, {.probe = &*probe}), batch.targets);
  std::vector<HeadReport> heads;
  for (const HeadIndex& head : all_heads(layers, model.options.attention.heads))
    heads.push_back({head});
  for (std::int64_t layer = 0; layer < layers; ++layer) read_attention(heads, *probe, layer, batch);
  probe.reset();  // frees its arrays before the backward pass, which then records none
  add_weight_norms(heads, model, weights, grad(loss, weights));
  return heads;
}

std::vector<std::string> alarms_of(const HeadReport& head, const std::vector<MetricsRow>& history) {
  std::vector<MetricsRow> last;  // the last four evaluations, newest first
  for (auto row = history.rbegin(); row != history.rend() && last.size() < 4; ++row)
    if (!std::isnan(row->eval_loss)) last.push_back(*row);
  if (last.empty()) return {};
  const double loss = last[0].eval_loss, optimal = last[0].eval_optimal;  // optimal may be NaN
  const double start = history[0].step == 0 ? history[0].eval_loss : history[0].loss;
  const bool high = loss - optimal > 0.2 * (start - optimal);
  const bool stalled = std::isnan(optimal) && last.size() == 4 && loss > 0.99 * last[3].eval_loss;
  const double least = 1e-3 * head[kDWV];
  std::vector<std::string> alarms;
  if ((high || stalled) && head[kSaturatedQueries] >= 0.95 && head[kDWQ] < least &&
      head[kDWK] < least)
    alarms.emplace_back("stuck");
  if (!(head[kLargestScore] <= 1000) ||
      (high && head[kLargestScore] > 50 && head[kSaturatedQueries] >= 0.25))
    alarms.emplace_back("exploding");
  return alarms;
}

HeadAlarms::HeadAlarms(const RunFolder& folder, Trainer& trainer)
    : trainer_(trainer),
      file_(folder, trainer, RunFolder::kHeads, "step,layer,head,quantity,value",
            trainer.steps_done - (trainer.evaluated() ? 0 : 1)) {}

std::vector<std::string> HeadAlarms::after_evaluation() {
  const std::int64_t step = trainer_.steps_done;
  std::string lines;
  std::vector<std::string> news;
  for (const HeadReport& head : head_health(trainer_.model, measured_batch(trainer_))) {
    const auto add = [&](std::string_view quantity, double value) {
      lines += fmt::format("{},{},{},{},{}\n", step, head.layer, head.head, quantity,
                           std::isnan(value) ? "" : fmt::format("{:.17g}", value));
    };
    for (const Quantity q : {kSaturatedQueries, kDWQ, kDWK, kDWV, kLargestScore})
      add(head_quantities()[q].name, head[q]);
    for (const std::string& alarm : alarms_of(head, trainer_.history())) {
      add(alarm, 1);
      const std::string what = head_name(head) + " is " + alarm;
      if (!reported_.insert(what).second) continue;
      news.push_back(fmt::format(
          "step {}: {}: the softmax is saturated (softmax_gain below 0.02) for {:.0f} % of its "
          "queries, its largest |score| is {:.3g}, |dW_Q| {:.2g}, |dW_K| {:.2g}, |dW_V| {:.2g}; {} "
          "may help",
          step, what, 100 * head[kSaturatedQueries], head[kLargestScore], head[kDWQ], head[kDWK],
          head[kDWV], remedies(trainer_.config().model.attention)));
    }
  }
  file_.write(step, lines);
  return news;
}

}  // namespace heed::nn
