// Gradients of a batch that is split into shards (`--accumulate`). The order in which the gradients
// are summed does not depend on which thread or process computes which shard. The threads of a
// process compute shards side by side, and several processes may share the shards.
#pragma once

#include <functional>
#include <vector>

#include "nn/layers/transformer.h"
#include "nn/tasks/task.h"

namespace heed::nn {

/// Contribution of one shard, or of several, to the loss and the gradients of a batch.
struct ShardGradients {
  double loss = 0;  ///< share of the batch's mean loss, nats
  /// Gradients in the order of parameters(). A tensor is undefined if no gradient reached its
  /// parameter.
  std::vector<Tensor> gradients;
};

/// Runs the forward and backward pass of one shard. The rows of the batch are divided into `shards`
/// equal parts, and `shard` is the number of the part, from 0. The loss is divided by the number of
/// targets in the whole batch, so that the sum over all shards is the loss of the step. Sets each
/// .grad to zero first; afterwards the gradients are in .grad as well as in the result. If `probe`
/// is not null, it observes the forward pass. Throws ValueError unless `shards` divides the number
/// of rows.
ShardGradients shard_gradients(Transformer& model, const Batch& batch, std::int64_t shard,
                               std::int64_t shards, Generator& dropout, Probe* probe = nullptr);

/// Returns the random stream for the dropout of shard `shard` in step `step`. It depends only on
/// the three arguments.
Generator shard_dropout(std::int64_t seed, std::int64_t step, std::int64_t shard);

/// Returns f(first) + ... + f(last - 1), summed as a balanced binary tree. At most about
/// log2(last - first) partial sums exist at a time.
ShardGradients sum_shards(std::int64_t first, std::int64_t last,
                          const std::function<ShardGradients(std::int64_t)>& f);

/// Returns how many of `shards` shards threads compute side by side: the largest power of two, at
/// most `threads` and `shards`, for which shards of `bytes` each need at most a quarter of
/// `free_bytes`. At least 1.
std::int64_t shards_side_by_side(std::int64_t shards, int threads, double bytes, double free_bytes);

/// Computes shards on several threads.
class ShardThreads {
 public:
  /// Returns f(own, first) + ... + f(own, last - 1), summed as by sum_shards(). Each of `groups`
  /// threads, a power of two that divides the number of shards, computes a subtree of the tree of
  /// sums. `own` is `model` for the first thread. For another thread it is a model whose parameters
  /// share the memory of those of `model`, but have gradients of their own, because threads would
  /// add to a common .grad in any order. If the calling thread has an OpObserver, it computes all
  /// shards, because an observer sees only the ops of its thread. If f throws for several shards,
  /// rethrows the error of the lowest of them.
  ShardGradients sum(Transformer& model, std::int64_t first, std::int64_t last, std::int64_t groups,
                     const std::function<ShardGradients(Transformer& own, std::int64_t shard)>& f);

 private:
  // Models of all threads but the first. They keep their gradients until the next call, in which
  // the same thread frees them: the memory pool has a cache for each thread.
  std::vector<Transformer> models_;
};

}  // namespace heed::nn
