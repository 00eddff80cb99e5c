// Lab: is attention an explanation? In the task `induction`, the position of the answer in the
// input is known: it follows the earlier copy of the current token. Four methods assign a relevance
// to each token. A method is right if its largest relevance is at this position:
//   raw attention          weights of the last layer, mean over heads
//   rollout                product over layers of (A + I) / 2 (Abnar & Zuidema 2020)
//   attention x gradient   R <- R + A' R, A' = mean over heads of (A * dy/dA)+ (Chefer et al. 2021)
//   occlusion              decrease of log p(answer) if one input token is replaced
// A [T, T] are the attention weights, y is the logit of the answer, and (x)+ is max(x, 0).
// Occlusion measures a causal effect, because it runs the model with changed inputs. It also finds
// tokens other than the answer.
#include <cmath>
#include <cstdio>

#include "examples/gradients/experiment.h"
#include "examples/gradients/induction_run.h"

using namespace heed::autograd;
using namespace heed::lab;

namespace {

// With blocks of 16 to 24 tokens, position 30 has exactly one earlier copy of its token.
constexpr Index kQuery = 30, kTokens = kQuery + 1, kSequences = 64;

struct Questions {
  Tensor inputs;  // [B, kTokens]
  Tensor answer;  // [B], the next token
  Tensor copied;  // [B], position of the answer in the input
};

Questions draw_questions() {
  const Batch batch = long_blocks(kSequences);
  const Tensor answer = contiguous(select(batch.targets, 1, kQuery));
  const Tensor inputs = contiguous(slice(batch.inputs, 1, 0, kTokens));
  const Tensor copied = argmax(to(eq(inputs, unsqueeze(answer, 1)), float32), 1);
  return {inputs, answer, copied};
}

// Returns the slice of x at position kQuery.
Tensor at_query(const Tensor& x) { return select(x, 1, kQuery); }
// Returns x[b][index[b]] for each b, [B]. x is [B, n].
Tensor pick(const Tensor& x, const Tensor& index) {
  return squeeze(gather(x, 1, unsqueeze(index, 1)), 1);
}

// Relevance of each token according to each method, [B, T].
struct Relevance {
  Tensor raw, rollout, attention_x_gradient, occlusion;
};

void explain_by_attention(const Transformer& model, const Questions& q, Relevance& r) {
  Probe probe;
  for (const Index layer : {0, 1}) probe.record(attention_site(layer, "hook_pattern"));
  const Tensor answers = sum(pick(at_query(model(q.inputs, {.probe = &probe})), q.answer));
  grad(answers, model.tok.weight);  // runs backward, so that the probe records gradients
  const Tensor identity = eye(kTokens);
  Tensor rolled = identity, relevance = identity, weights;
  for (const Index layer : {0, 1}) {
    const std::string site = attention_site(layer, "hook_pattern");
    const Tensor a = probe.value(site), da = probe.value(site + "_grad");  // [B, H, T, T]
    weights = mean(a, {1});
    rolled = matmul((weights + identity) / 2.0, rolled);
    relevance = relevance + matmul(mean(relu(a * da), {1}), relevance);
  }
  r.raw = at_query(weights), r.rollout = at_query(rolled);
  r.attention_x_gradient = at_query(relevance - identity);
}

void explain_by_occlusion(const Transformer& model, const Questions& q, Relevance& r) {
  const NoGrad guard;
  const auto log_p = [&](const Tensor& inputs) {
    return pick(log_softmax(at_query(model(inputs)), -1), q.answer);
  };
  const Tensor whole = log_p(q.inputs);
  std::vector<Tensor> drops{zeros({kSequences})};  // the first token (BOS, ^) is not replaced
  for (Index j = 1; j < kTokens; ++j) {
    std::vector<std::int64_t> ids = q.inputs.to_vector<std::int64_t>();
    for (Index b = 0; b < kSequences; ++b) {
      Index& id = ids[std::size_t(b * kTokens + j)];
      id = (id + 1) % 32;  // replaces the token by another of the 32 tokens
    }
    drops.push_back(whole - log_p(from_data(ids, q.inputs.shape())));
  }
  r.occlusion = stack(drops, 1);
}

}  // namespace

int main() {
  Trainer run = induction_run(1);
  const Questions q = draw_questions();
  Relevance r;
  std::vector<heed::plot::Series> curves{{"raw attention", {}, {}},
                                         {"rollout", {}, {}},
                                         {"attention x gradient", {}, {}},
                                         {"occlusion", {}, {}}};
  std::printf("share of %ld questions where the largest entry is on the copied token\n\n",
              long(kSequences));
  std::printf("step   raw    rollout   attention x gradient   occlusion\n");
  // Largest differences between two methods: gradient - raw, and raw - rollout.
  double gradient_lead = 0, raw_lead = 0;
  for (Index step = 20; step <= 240; step += 20) {
    train_to(run, step);
    explain_by_attention(run.model, q, r);
    explain_by_occlusion(run.model, q, r);
    const Tensor* methods[] = {&r.raw, &r.rollout, &r.attention_x_gradient, &r.occlusion};
    double hits[4];
    for (std::size_t i = 0; i < 4; ++i) {
      hits[i] = mean(to(eq(argmax(*methods[i], 1), q.copied), float64)).item();
      curves[i].x.push_back(double(step)), curves[i].y.push_back(hits[i]);
    }
    gradient_lead = std::max(gradient_lead, hits[2] - hits[0]);
    raw_lead = std::max(raw_lead, hits[0] - hits[1]);
    std::printf("%4ld   %.3f   %.3f          %.3f              %.3f\n", long(step), hits[0],
                hits[1], hits[2], hits[3]);
  }
  const Tensor matched = q.copied - ones_like(q.copied);
  const auto mean_at = [](const Tensor& x, const Tensor& place) {
    return mean(pick(x, place)).item();
  };
  std::printf("\n");
  Predictions predictions;
  predictions.expect("largest lead of attention x gradient over raw attention", gradient_lead, 0.3);
  predictions.expect("largest lead of raw attention over rollout", raw_lead, 0.2);
  predictions.expect("trained: raw attention", curves[0].y.back(), 0.95);
  predictions.expect("trained: nats lost without the copied token", mean_at(r.occlusion, q.copied),
                     1);
  predictions.expect("trained: nats lost without the token before it",
                     mean_at(r.occlusion, matched), 1);
  predictions.expect_at_most("trained: raw attention to the token before it",
                             mean_at(r.raw, matched), 0.05);
  std::printf(
      "\nNotice: attention shows where the answer was read, but not everything that the answer\n"
      "depends on: without the token before it, the model cannot find the position to read. For\n"
      "the debate see Jain & Wallace 2019 and Wiegreffe & Pinter 2019.\n");
  return predictions.finish(
      heed::plot::draw_chart({.title = "Methods that point at the token that induction copies",
                              .x_name = "training step",
                              .y_name = "share of questions",
                              .series = curves}),
      "gradient_explanation.png",
      "Share of questions over training steps in which raw attention, rollout, attention times "
      "gradient and occlusion point at the copied token.");
}
