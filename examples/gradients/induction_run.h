// The run that labs look into: heed's default, two layers of two heads without an MLP, learning
// `induction`, a random block of tokens that comes back.
//
// Position t reads token y[t - 1] and predicts y[t]. With a block of P tokens, what is there to
// copy from t = P + 1 on stands at position t - P + 1, right behind the earlier copy of the token
// read; these are the repeat tokens.
#pragma once

#include <string>

#include "autograd/engine/engine.h"
#include "nn/train/trainer.h"

/// heed train's own recipe; only the projections are stored apart, for each to have its gradient.
/// `periods`: lengths of a block.
inline heed::nn::Trainer induction_run(std::int64_t seed, const std::string& periods = "3..24") {
  heed::nn::RunConfig config;
  config.task_parameters = {{"periods", periods}};
  config.model.attention.form = heed::nn::AttentionForm::kSeparate;
  config.seed = seed;
  return heed::nn::Trainer(config);
}

inline void train_to(heed::nn::Trainer& run, std::int64_t step) {
  while (run.steps_done < step) run.step();
}

/// Sequences whose block is 16 to 24 tokens long: of 48 tokens, each occurs at most three times.
inline heed::nn::Batch long_blocks(std::int64_t sequences) {
  return heed::nn::make_task("induction", {}, {{"periods", "16..24"}})->evaluation(0, sequences);
}

/// Mean loss over each sequence's repeat tokens: logits [B, T, classes] -> [B].
inline heed::nn::Tensor repeat_losses(const heed::nn::Tensor& logits,
                                      const heed::nn::Batch& batch) {
  using namespace heed::autograd;
  const Tensor counted = to(batch.counted, logits.dtype());
  const Tensor nats = cross_entropy(logits, batch.targets, {.reduction = Reduction::kNone});
  return sum(nats * counted, {1}) / sum(counted, {1});
}

/// Their mean for a model as it is.
inline double repeat_loss(const heed::nn::Transformer& model, const heed::nn::Batch& batch) {
  const heed::autograd::NoGrad guard;
  return mean(repeat_losses(model(batch.inputs), batch)).item();
}

inline std::string attention_site(std::int64_t layer, const std::string& name) {
  return "blocks." + std::to_string(layer) + ".attn." + name;
}
