// What heed bench repeats: a training step, generation, attention. A model is named by its speed
// preset (nn/train/README.md), to which options may be added: "toy,context=256,batch=1"; those of
// the model, and of a step its batch, optimizer, learning rate and clipping. UsageError for others;
// ValueError as nn::validate().
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "nn/optim/optimizer.h"
#include "nn/train/config.h"

namespace heed {

/// A training step on one batch.
class TrainingStep {
 public:
  explicit TrainingStep(const std::string& model);
  /// Takes a step and returns its loss.
  double operator()();
  /// logic_error unless the last loss is below the first: wrong steps have no speed.
  void check_learned() const;
  double tokens() const { return double(config_.batch * config_.model.context); }
  /// Of one step, as ModelReport::flops_per_token counts.
  double flop();

 private:
  std::string name_;
  nn::RunConfig config_;
  nn::Transformer model_;
  std::unique_ptr<nn::Optimizer> optimizer_;
  autograd::Tensor x_, y_;  // tokens and targets [batch, context]
  double first_ = 0, last_ = 0;
  bool stepped_ = false;
};

/// A model goes on, greedily and with cached keys and values, from one token until
/// its context is full.
class Generation {
 public:
  explicit Generation(const std::string& model);
  void operator()();
  double tokens() const { return double(model_.options.context); }
  /// Of all weights but the embeddings, of which a token reads one row.
  double weight_bytes() const { return weight_bytes_; }

 private:
  nn::Transformer model_;
  double weight_bytes_ = 0;
};

/// One call is causal attention forward and backward; `shape` is "BxHxTxD", 8x6x256x64.
/// UsageError if it is not.
std::function<void()> attention_call(const std::string& shape);

}  // namespace heed
