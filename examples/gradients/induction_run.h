// The model that several labs train: heed's default, two layers of two heads without an MLP. Its
// task is `induction`: a random block of tokens that repeats.
//
// Position t reads token y[t - 1] and predicts y[t]. If the block has P tokens, the repeat tokens
// are those from t = P + 1 on. A repeat token can be copied from position t - P + 1, directly after
// the earlier copy of the token that position t reads.
#pragma once

#include <string>

#include "autograd/engine/engine.h"
#include "nn/lab/train/trainer.h"

/// Returns a trainer with the default options of `heed train`. `periods` is the range of block
/// lengths.
inline heed::lab::Trainer induction_run(std::int64_t seed, const std::string& periods = "3..24") {
  heed::lab::RunConfig config;
  config.task_parameters = {{"periods", periods}};
  config.seed = seed;
  return heed::lab::Trainer(config);
}

/// Trains until `step` steps are done.
inline void train_to(heed::lab::Trainer& run, std::int64_t step) {
  while (run.steps_done < step) run.step();
}

/// Returns sequences of 48 tokens with blocks of 16 to 24 tokens,
/// so that each token occurs at most three times.
inline heed::lab::Batch long_blocks(std::int64_t sequences) {
  return heed::lab::make_task("induction", {}, {{"periods", "16..24"}})->evaluation(0, sequences);
}

/// Returns the mean loss over the repeat tokens of each sequence, [B]. logits is [B, T, classes].
inline heed::nn::Tensor repeat_losses(const heed::nn::Tensor& logits,
                                      const heed::lab::Batch& batch) {
  using namespace heed::autograd;
  const Tensor counted = to(batch.counted, logits.dtype());
  const Tensor nats = cross_entropy(logits, batch.targets, {.reduction = Reduction::kNone});
  return sum(nats * counted, {1}) / sum(counted, {1});
}

/// Returns the mean loss of a model over the repeat tokens of all sequences.
inline double repeat_loss(const heed::nn::Transformer& model, const heed::lab::Batch& batch) {
  const heed::autograd::NoGrad guard;
  return mean(repeat_losses(model(batch.inputs), batch)).item();
}

/// Returns the full name of an intermediate tensor in the attention of a layer, for a Probe.
inline std::string attention_site(std::int64_t layer, const std::string& name) {
  return "blocks." + std::to_string(layer) + ".attn." + name;
}
