// A step's batch in parts: gradients of each part, added up in an order that does not depend on who
// computes which. The parts could run one after the other (--accumulate) or elsewhere.
#pragma once

#include <functional>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// Loss and gradients of one shard, as parts of the step's.
struct ShardGradients {
  double loss = 0;                ///< its share of the batch's mean loss, nats
  std::vector<Tensor> gradients;  ///< in parameters()' order; undefined where none arrived
};

/// Forward and backward of shard `shard` of `shards`: that many equal parts of the batch's rows.
/// The loss is weighted by the targets of the whole batch, so that all shards' sum is the step's.
/// Each gradient starts from zero and stays in .grad, too. `probe`: null, or that of the pass.
/// ValueError unless `shards` divides the batch.
ShardGradients shard_gradients(Transformer& model, const Batch& batch, std::int64_t shard,
                               std::int64_t shards, Generator& dropout, Probe* probe = nullptr);

/// The stream that shard `shard` of step `step` draws its dropout from: a function of these alone.
Generator shard_dropout(std::int64_t seed, std::int64_t step, std::int64_t shard);

/// f(first) + ... + f(last - 1) as a balanced binary tree; at most log2 of them are kept at a time.
ShardGradients sum_shards(std::int64_t first, std::int64_t last,
                          const std::function<ShardGradients(std::int64_t)>& f);

}  // namespace heed::nn
