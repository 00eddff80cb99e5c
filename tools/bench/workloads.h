// Workloads that `heed-bench` and tools/peers/blocks time: a training step and a generation.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nn/lab/train/config.h"
#include "nn/lab/train/cost/model_cost.h"
#include "nn/lab/train/shards.h"
#include "nn/optim/optimizer.h"

namespace heed {

/// Returns the names of the presets for speed measurements (nn/lab/train/README.md).
std::vector<std::string> bench_presets();
/// Returns the vocabulary size with which a bench preset is timed. Throws std::logic_error if
/// `preset` is not one of bench_presets().
Index bench_vocabulary(std::string_view preset);

/// Repeated training steps on one fixed random batch, in shards as in lab::Trainer, without its
/// limit of memory. The constructor throws what lab::validate() throws.
class TrainingStep {
 public:
  TrainingStep(const lab::RunConfig& config, Index vocabulary);
  /// Takes one step and returns its loss.
  double operator()();
  /// Throws std::logic_error unless the last loss is below the first one. This prevents a report of
  /// the speed of wrong steps.
  void check_learned() const;
  /// Returns the number of shards of the batch.
  Index shards() const { return config_.shards; }
  /// Returns the number of tokens per step.
  double tokens() const { return double(config_.batch * config_.model.context); }
  /// Returns the floating-point operations of one step, as lab::flops_per_token() counts them.
  double flop() const { return lab::flops_per_token(model_) * tokens(); }
  /// Returns the bytes that one step must read and write at least if no value stays in a cache. The
  /// forward pass, the backward pass and the update read the weights; the update writes them. The
  /// backward pass writes the gradients; their norm and the update read them. The update reads and
  /// writes both moments of AdamW. Activations are written once and read once.
  double traffic_bytes() const {
    return 11 * 4.0 * double(nn::count_parameters(model_)) +
           2 * double(config_.batch) * lab::activation_bytes(model_);
  }

 private:
  lab::RunConfig config_;
  nn::Transformer model_;
  std::unique_ptr<nn::Optimizer> optimizer_;
  lab::Shards shards_;
  lab::Batch batch_;
  autograd::Generator no_dropout_;  // the presets draw nothing from it
  double first_ = 0, last_ = 0;     // losses
  bool stepped_ = false;
};

/// Greedy generation of one sequence with a KV cache, from one token until the context is full.
class Generation {
 public:
  Generation(const lab::RunConfig& config, Index vocabulary);
  void operator()();
  /// Returns the number of tokens per call.
  double tokens() const { return double(model_.options.context); }
  /// Returns the bytes of all weights except the embeddings, because each generated token reads
  /// only one row of an embedding.
  double weight_bytes() const { return weight_bytes_; }

 private:
  nn::Transformer model_;
  double weight_bytes_ = 0;
};

}  // namespace heed
