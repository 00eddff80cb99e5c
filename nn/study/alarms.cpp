#include "nn/study/alarms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "autograd/engine/engine.h"
#include "nn/layers/probe.h"
#include "nn/study/study.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr const char* kSites[] = {"attn.hook_attn_scores_raw", "attn.hook_attn_scores",
                                  "attn.hook_pattern"};
void read_attention(HeadReport& head, const Probe& probe, const Batch& batch) {
  std::vector<double> arrays[std::size(kSites)];  // [B, T, T] each
  for (std::size_t i = 0; i < std::size(kSites); ++i) {
    const Tensor all = probe.value(block_site(head.layer, kSites[i]));
    arrays[i] = to(select(all, 1, head.head), float64).to_vector<double>();
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
        if (!(std::abs(raw[cell]) <= largest)) largest = std::abs(raw[cell]);
      }
      queries += keys > 1, saturated += keys > 1 && gain < 0.02;
    }
  head[kSaturatedQueries] = saturated / queries, head[kLargestScore] = largest;
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
  // Frozen weights have no gradient, so a copy of the model is measured.
  if (std::ranges::any_of(parameters(model),
                          [](const NamedTensor& p) { return !p.tensor.requires_grad(); }))
    return head_health(clone(model), batch);
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
  std::vector<HeadReport> heads;
  for (const HeadIndex& index :
       all_heads(std::int64_t(model.blocks.size()), model.options.attention.heads)) {
    HeadReport& head = heads.emplace_back();
    head.layer = index.layer, head.head = index.head;
    read_attention(head, *probe, batch);
  }
  probe.reset();  // frees its arrays before the backward pass, which then records none
  const std::vector<Tensor> gradients = grad(loss, weights);
  for (std::size_t layer = 0; layer < model.blocks.size(); ++layer) {
    const AttentionWeights g = per_head_gradients(model.blocks[layer].attn, weights, gradients);
    for (HeadReport& head : heads)
      if (head.layer == std::int64_t(layer)) add_weight_norms(head, g, model.options.attention);
  }
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

HeadAlarms::HeadAlarms(const RunFolder& folder, const Trainer& trainer)
    : trainer_(trainer),
      file_(folder, RunFolder::kHeads, "step,layer,head,quantity,value",
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
