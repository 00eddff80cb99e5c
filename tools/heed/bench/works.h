// What heed bench and tools/peers/blocks repeat: a training step, generation.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nn/optim/optimizer.h"
#include "nn/train/config.h"
#include "nn/train/cost/model_cost.h"

namespace heed {

/// The names of those presets that are there for speed (nn/train/README.md).
std::vector<std::string> bench_presets();
/// The vocabulary that one of these is timed with.
std::int64_t bench_vocabulary(std::string_view preset);

/// A training step of a speed preset's configuration on one batch. ValueError as nn::validate().
class TrainingStep {
 public:
  TrainingStep(const nn::RunConfig& config, std::int64_t vocabulary);
  /// Takes a step and returns its loss.
  double operator()();
  /// logic_error unless the last loss is below the first: wrong steps have no speed.
  void check_learned() const;
  double tokens() const { return double(config_.batch * config_.model.context); }
  /// Of one step, as nn::flops_per_token() counts.
  double flop() const { return nn::flops_per_token(model_) * tokens(); }

 private:
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
  Generation(const nn::RunConfig& config, std::int64_t vocabulary);
  void operator()();
  double tokens() const { return double(model_.options.context); }
  /// Of all weights but the embeddings, of which a token reads one row.
  double weight_bytes() const { return weight_bytes_; }

 private:
  nn::Transformer model_;
  double weight_bytes_ = 0;
};

}  // namespace heed
