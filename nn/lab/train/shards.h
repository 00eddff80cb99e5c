// A step computes the gradients of a batch in shards: equal parts of the batch, whose gradients are
// summed as a binary tree. `shards`, their number, decides the order of the sums and so the last
// bits of the results. Threads, processes and gradient accumulation change no bit:
//   - threads compute shards side by side, each on one thread or, if the shards are large, on its
//   share of the threads;
//   - processes share the shards (rank_session.h);
//   - with `accumulate` A, at most shards / A shards are computed at a time, which needs less
//   memory.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "autograd/base/pool.h"
#include "autograd/ops/ops.h"
#include "nn/lab/tasks/task.h"
#include "nn/lab/train/config.h"
#include "nn/layers/transformer.h"

namespace heed::lab {

class RankSession;

/// Contribution of one shard, or of several, to the loss and the gradients of a batch.
struct ShardGradients {
  double loss = 0;  ///< share of the batch's mean loss, nats
  /// Gradients in the order of parameters(). A tensor is undefined if no gradient reached its
  /// parameter, which is the same for all shards.
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
void resolve_shards(RunConfig& config, Index vocab, Index classes);

/// Returns true if a shard has at least 100 million operations, counted as above (about 2 ms of one
/// core). Several threads may then share the ops of one shard, if there are more threads than
/// shards. A smaller shard gets one thread: on a machine whose cores communicate slowly, sharing
/// made a step of the preset micro take 1.4 times as long.
bool shards_need_teams(const RunConfig& config, Index vocab, Index classes);

/// Returns the number of threads that compute `own` shards side by side: the largest power of two,
/// at most `own`, num_threads() and shards / accumulate, for which these threads need at most a
/// quarter of `free_bytes`. At least 1. Each thread needs shard_bytes() for its shard, and the
/// bytes of the weights for each of log2(own / threads) partial sums.
Index shards_side_by_side(const RunConfig& config, Index vocab, Index classes, Index own,
                          double free_bytes);

/// Returns the random stream for the dropout of shard `shard` in step `step`. It depends only on
/// the three arguments.
Generator shard_dropout(std::int64_t seed, std::int64_t step, std::int64_t shard);

/// Returns the cross-entropy of the model's logits for inputs [B, T] and targets [B, T], in nats.
/// Targets of kIgnored have no loss. For positions that are ignored in every sequence, such as
/// the question in an answer task, logits and the MLP of the last block are not computed
/// (ForwardContext::logits_at). Dropout therefore draws other masks than in a pass over all
/// positions. ctx.logits_at must be undefined. Throws the errors of Transformer::forward() and
/// cross_entropy().
Tensor training_loss(const Transformer& model, const Tensor& inputs, const Tensor& targets,
                     const ForwardContext& ctx,
                     autograd::Reduction reduction = autograd::Reduction::kMean);

/// Computes the gradients of batches in shards, on several threads and ranks.
class Shards {
 public:
  /// Shards that are computed side by side may need a quarter of `free_bytes` of memory.
  explicit Shards(double free_bytes = std::numeric_limits<double>::infinity())
      : free_bytes_(free_bytes) {}

  /// Sets the .grad of each parameter of `model` to the gradient of the mean loss of `batch`, and
  /// returns this loss. The batch has config.shards shards, of which each rank of `ranks` computes
  /// an equal part; null: this process computes all. Returns nothing if the root rank has left.
  /// `dropout` is the stream for the dropout of a batch in one shard; otherwise each shard has the
  /// stream shard_dropout(config.seed, step, shard). If the calling thread has an OpObserver, it
  /// computes all shards, because an observer sees only the ops of its thread. Throws ValueError
  /// unless config.shards divides the number of sequences, and the error of a shard.
  std::optional<double> set_gradients(Transformer& model, const Batch& batch,
                                      const RunConfig& config, Index step, Generator& dropout,
                                      RankSession* ranks = nullptr);

 private:
  void add_groups(Index groups);
  // State of one group of threads. The memory pool has a cache for each thread, so memory is reused
  // best if the thread that allocated it also frees it. Therefore `sum` is kept until the next
  // call, in which usually the same thread replaces it.
  struct Group {
    // A model whose parameters share the memory of those of the model in training, but have
    // gradients of their own, because threads would add to a common .grad in any order. The first
    // group uses the model itself.
    std::optional<Transformer> own;
    ShardGradients sum;
  };
  double free_bytes_;
  std::vector<Group> groups_;
};

}  // namespace heed::lab
