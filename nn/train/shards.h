// A step computes the gradients of a batch in shards: equal parts of the batch, whose gradients are
// summed as a binary tree. `shards`, their number, decides the order of the sums and so the last
// bits of the results. Threads, processes and gradient accumulation change no bit:
//   - threads compute shards side by side, each on one thread or, if the shards are large, on its
//   share of the threads (ShardThreads);
//   - processes share the shards (rank_session.h);
//   - with `accumulate` A, at most shards / A shards are computed at a time, which needs less
//   memory.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <vector>

#include "autograd/base/pool.h"
#include "nn/layers/transformer.h"
#include "nn/tasks/task.h"
#include "nn/train/config.h"

namespace heed::nn {

/// Contribution of one shard, or of several, to the loss and the gradients of a batch.
struct ShardGradients {
  double loss = 0;  ///< share of the batch's mean loss, nats
  /// Gradients in the order of parameters(). A tensor is undefined if no gradient reached its
  /// parameter.
  autograd::PoolVector<Tensor> gradients;
};

/// Replaces config.shards = 0 by the default: the largest power of two, at most 64, that divides
/// the batch and for which each shard has
///   - at least 10 million operations, counted as 6 x weights x tokens (about 0.2 ms of one core),
///   - at least 256 tokens. The limit is 128 if the weights take at most 512 KB, so that they stay
///     in the cache of a core. It is 512 if the weights take more than 8 MB, so that each shard
///     reads them from memory.
/// Smaller shards would make a step on one thread more than a few percent slower: each shard has a
/// fixed cost, reads all weights and writes all gradients. If config.shards is below
/// config.accumulate, raises it to config.accumulate. `vocab` and `classes` are those of the task.
void resolve_shards(RunConfig& config, std::int64_t vocab, std::int64_t classes);

/// Returns true if a shard has at least 100 million operations, counted as above (about 2 ms of one
/// core). Several threads may then share the ops of one shard, if there are more threads than
/// shards. A smaller shard gets one thread: on a machine whose cores communicate slowly, sharing
/// made a step of the preset micro take 1.4 times as long.
bool shards_need_teams(const RunConfig& config, std::int64_t vocab, std::int64_t classes);

/// Runs the forward and backward pass of one shard. The rows of the batch are divided into `shards`
/// equal parts, and `shard` is the number of the part, from 0. The loss is divided by the number of
/// targets in the whole batch, so that the sum over all shards is the loss of the step. Sets each
/// .grad to zero first; afterwards the gradients are in .grad as well as in the result. Throws
/// ValueError unless `shards` divides the number of rows.
ShardGradients shard_gradients(Transformer& model, const Batch& batch, std::int64_t shard,
                               std::int64_t shards, Generator& dropout);

/// Returns the random stream for the dropout of shard `shard` in step `step`. It depends only on
/// the three arguments.
Generator shard_dropout(std::int64_t seed, std::int64_t step, std::int64_t shard);

/// Returns f(first) + ... + f(last - 1), summed as a balanced binary tree. At most about
/// log2(last - first) partial sums exist at a time. The sum is in the tensors of f(first), if they
/// are defined.
ShardGradients sum_shards(std::int64_t first, std::int64_t last,
                          const std::function<ShardGradients(std::int64_t)>& f);

/// Sets the .grad of each parameter of `model` to the gradient in `sum`.
void set_gradients(Transformer& model, const ShardGradients& sum);

/// Returns the number of threads that compute shards side by side: the largest power of two, at
/// most `limit` and `shards`, for which these threads need at most a quarter of `free_bytes`. At
/// least 1. Each thread stores `bytes` for its shard, and up to log2(shards / threads) partial sums
/// of `gradient_bytes`.
std::int64_t shards_side_by_side(std::int64_t shards, std::int64_t limit, double bytes,
                                 double gradient_bytes, double free_bytes);

/// Computes shards on several threads.
class ShardThreads {
 public:
  /// Returns f(own, first) + ... + f(own, last - 1), summed as by sum_shards(). The gradients that
  /// f returns must be row-major, and no other tensor may use their memory, because sums overwrite
  /// them. Each of `groups` threads, a power of two that divides the number of shards, computes a
  /// subtree of the tree of sums. `own` is `model` for the first thread. For another thread it is a
  /// model whose parameters share the memory of those of `model`, but have gradients of their own,
  /// because threads would add to a common .grad in any order. If the calling thread has an
  /// OpObserver, it computes all shards, because an observer sees only the ops of its thread. If f
  /// throws for several shards, rethrows the error of the lowest of them. If `teams` is true and
  /// there are at least two threads for each group, threads share the ops of a shard.
  ShardGradients sum(Transformer& model, std::int64_t first, std::int64_t last, std::int64_t groups,
                     bool teams,
                     const std::function<ShardGradients(Transformer& own, std::int64_t shard)>& f);

 private:
  ShardGradients sum_groups(std::int64_t groups);
  // State of one thread. The memory pool has a cache for each thread, so memory is reused best if
  // the thread that allocated it also frees it. Therefore `sum` is kept until the next call, in
  // which usually the same thread replaces it.
  struct Group {
    std::optional<Transformer> own;  // not for the first thread
    ShardGradients sum;
    std::exception_ptr error;
  };
  std::vector<Group> groups_;
};

}  // namespace heed::nn
