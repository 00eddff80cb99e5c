#include "nn/lab/train/shards.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "autograd/base/error.h"
#include "autograd/base/parallel.h"
#include "autograd/engine/engine.h"
#include "autograd/graph/inplace.h"
#include "autograd/graph/observer.h"
#include "autograd/kernels/kernels.h"
#include "autograd/tensor/create.h"
#include "nn/lab/train/cost/memory.h"
#include "nn/lab/train/rank_session.h"
#include "nn/lab/train/streams.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr Index kAddGrain = 1 << 13;  // elements that a thread adds at a time

double targets_of(const Batch& batch) {
  const Tensor targets = contiguous(batch.targets);
  const std::int64_t* first = targets.data<std::int64_t>();
  const auto ignored = std::count(first, first + targets.numel(), kIgnored);
  return std::max(1.0, double(targets.numel() - ignored));
}

double tokens_in_shard(const RunConfig& c, Index shards) {
  return double(c.batch) / double(shards) * double(c.model.context);
}

double operations(const RunConfig& c, Index shards, Index vocab, Index classes) {
  return 6 * tokens_in_shard(c, shards) * weight_count(c.model, vocab, classes);
}

// Makes the parameters of `own` leaves that share the memory of the parameters of `model`. Keeps
// leaves of an earlier call that still share it, because a new leaf calls malloc for its gradient.
void share_parameters(Transformer& model, Transformer& own) {
  PoolVector<Tensor> all;
  for_each_tensor(model, [&](const Tensor& p) { all.push_back(p); });
  auto p = all.begin();
  for_each_tensor(own, [&](Tensor& leaf) {
    const Tensor& shared = *p++;
    if (leaf.shares_storage(shared) && leaf.requires_grad() == shared.requires_grad()) return;
    leaf = shared.detach();
    if (shared.requires_grad()) leaf.requires_grad_();
  });
}

// Returns the columns of targets [B, T] with a target in some row, int64 [P]. The tensor is
// undefined if these are all columns, or if every target is ignored.
Tensor columns_with_targets(const Tensor& targets) {
  const Index B = targets.size(0), T = targets.size(1);
  const Tensor flat = contiguous(targets);
  const std::int64_t* data = flat.data<std::int64_t>();
  PoolVector<Index> columns;
  columns.reserve(std::size_t(T));
  for (Index t = 0; t < T; ++t)
    for (Index b = 0; b < B; ++b)
      if (data[b * T + t] != kIgnored) {
        columns.push_back(t);
        break;
      }
  const Index count = std::ssize(columns);
  return count == T || count == 0 ? Tensor() : from_data(std::span<const Index>(columns), {count});
}

// Runs the forward and backward pass of one shard, whose number counts from 0, and takes the
// gradients out of .grad, which must be undefined. The loss is divided by the number of targets in
// the whole batch, so that the sum over all shards is the loss of the step.
ShardGradients shard_gradients(Transformer& model, const Batch& batch, Index shard, Index shards,
                               Generator& dropout) {
  const Index rows = batch.inputs.size(0) / shards;
  const auto part = [&](const Tensor& x) { return slice(x, 0, shard * rows, (shard + 1) * rows); };
  const ForwardContext context{.training = true, .generator = &dropout};
  // The mean and the sum times 1 / targets differ in their last bits. Batches in one
  // shard keep the bits that they had before there were shards.
  const Tensor loss = shards == 1 ? training_loss(model, batch.inputs, batch.targets, context)
                                  : training_loss(model, part(batch.inputs), part(batch.targets),
                                                  context, Reduction::kSum) *
                                        (1 / targets_of(batch));
  backward(loss);
  ShardGradients result;
  result.loss = loss.item();
  for_each_tensor(model, [&](Tensor& p) {
    result.gradients.push_back(p.grad());
    p.zero_grad();
  });
  return result;
}

// Adds `more` to `sum`, in place.
void add(ShardGradients& sum, const ShardGradients& more) {
  const NoGrad guard;
  sum.loss += more.loss;
  for (std::size_t i = 0; i < sum.gradients.size(); ++i)
    if (sum.gradients[i].defined() || more.gradients[i].defined())
      add_(sum.gradients[i], more.gradients[i]);
}

}  // namespace

Tensor training_loss(const Transformer& model, const Tensor& inputs, const Tensor& targets,
                     const ForwardContext& ctx, Reduction reduction) {
  ForwardContext at = ctx;
  at.logits_at = columns_with_targets(targets);
  const Tensor wanted =
      at.logits_at.defined() ? index_select(targets, 1, at.logits_at) : targets;  // [B, P]
  return cross_entropy(model.forward(inputs, at), wanted, {.reduction = reduction});
}

Generator shard_dropout(std::int64_t seed, std::int64_t step, std::int64_t shard) {
  return stream_of(mix(mix(std::uint64_t(seed)) + std::uint64_t(step)) + std::uint64_t(shard));
}

bool shards_need_teams(const RunConfig& c, Index vocab, Index classes) {
  return operations(c, c.shards, vocab, classes) >= 100e6;
}

void resolve_shards(RunConfig& c, Index vocab, Index classes) {
  const double weights = weight_bytes(c.model, vocab, classes);
  const double least_tokens = weights <= 0x1p19 ? 128 : weights <= 0x1p23 ? 256 : 512;
  const auto fits = [&](Index shards) {
    return c.batch % shards == 0 && tokens_in_shard(c, shards) >= least_tokens &&
           operations(c, shards, vocab, classes) >= 10e6;
  };
  if (c.shards == 0)
    for (c.shards = 1; c.shards < 64 && fits(2 * c.shards);) c.shards *= 2;
  c.shards = std::max(c.shards, c.accumulate);
}

Index shards_side_by_side(const RunConfig& c, Index vocab, Index classes, Index own,
                          double free_bytes) {
  const Index most = std::min({own, Index(num_threads()), c.shards / c.accumulate});
  auto groups = Index(std::bit_floor(std::uint64_t(most)));
  const double shard = shard_bytes(c, vocab, classes), sum = weight_bytes(c.model, vocab, classes);
  const auto needed = [&] {
    return double(groups) * (shard + sum * std::log2(double(own / groups)));
  };
  while (groups > 1 && !(needed() <= free_bytes / 4)) groups /= 2;
  return groups;
}

// Adds the sums of the groups to that of the first group. These additions are the upper part of the
// tree of sums. Threads add different elements.
void Shards::add_groups(Index groups) {
  const auto for_each_addition = [groups](auto add) {
    for (Index stride = 1; stride < groups; stride *= 2)
      for (Index i = 0; i < groups; i += 2 * stride) add(std::size_t(i), std::size_t(i + stride));
  };
  for_each_addition(
      [&](std::size_t i, std::size_t j) { groups_[i].sum.loss += groups_[j].sum.loss; });
  struct Chunk {
    std::size_t parameter;
    Index begin, end;
  };
  PoolVector<Chunk> chunks;
  const PoolVector<Tensor>& gradients = groups_[0].sum.gradients;
  for (std::size_t p = 0; groups > 1 && p < gradients.size(); ++p)
    if (gradients[p].defined())
      for (Index begin = 0, n = gradients[p].numel(); begin < n; begin += kAddGrain)
        chunks.push_back({p, begin, std::min(begin + kAddGrain, n)});
  parallel_for(std::ssize(chunks), 1, [&](Index first, Index last) {
    for (Index c = first; c < last; ++c) {
      const Chunk& chunk = chunks[std::size_t(c)];
      dispatch_floating(gradients[chunk.parameter].dtype(), "shards", [&]<class T> {
        const auto data = [&](std::size_t group) {
          return groups_[group].sum.gradients[chunk.parameter].template mutable_data<T>() +
                 chunk.begin;
        };
        for_each_addition([&](std::size_t i, std::size_t j) {
          kernels::add_into(data(i), data(j), chunk.end - chunk.begin);
        });
      });
    }
  });
}

std::optional<double> Shards::set_gradients(Transformer& model, const Batch& batch,
                                            const RunConfig& config, Index step, Generator& dropout,
                                            RankSession* ranks) {
  const Index vocab = model.options.vocab, classes = model.options.classes;
  const Index shards = config.shards, own = shards / (ranks ? ranks->size() : 1);
  const Index first = ranks ? ranks->rank() * own : 0;
  const Index groups =
      OpObserver::exists() ? 1 : shards_side_by_side(config, vocab, classes, own, free_bytes_);
  check<ValueError>(batch.inputs.size(0) % shards == 0, "shards", shards,
                    " does not divide the batch of ", batch.inputs.size(0), "; choose a divisor");
  while (std::ssize(groups_) < groups)
    groups_.push_back({groups_.empty() ? std::nullopt : std::optional(clone(model)), {}});
  // Sums the shards of a group as a binary tree: after shard i, adds the sums of all subtrees that
  // are now complete.
  const auto sum_group = [&](Index g) {
    Group& group = groups_[std::size_t(g)];
    Transformer& mine = group.own ? *group.own : model;
    group.sum = {};
    if (group.own) share_parameters(model, mine);
    for_each_tensor(mine, [](Tensor& p) { p.zero_grad(); });
    PoolVector<ShardGradients> sums;
    for (Index i = 0; i < own / groups; ++i) {
      const Index shard = first + g * (own / groups) + i;
      std::optional<Generator> of_shard;
      if (shards > 1 && config.model.attention.dropout > 0)
        of_shard = shard_dropout(config.seed, step, shard);
      sums.push_back(shard_gradients(mine, batch, shard, shards, of_shard ? *of_shard : dropout));
      for (Index n = i + 1; n % 2 == 0; n /= 2) {
        add(sums[sums.size() - 2], sums.back());
        sums.pop_back();
      }
    }
    group.sum = std::move(sums[0]);
  };
  if (shards_need_teams(config, vocab, classes))
    parallel_teams(groups, std::cref(sum_group));  // a copy would allocate
  else
    parallel_for(groups, 1, [&](Index g, Index) { sum_group(g); });
  add_groups(groups);
  ShardGradients sum = std::move(groups_[0].sum);
  if (ranks && ranks->sum_gradients(sum) & kLeft) return std::nullopt;
  auto gradient = sum.gradients.begin();
  for_each_tensor(model, [&](Tensor& p) { p.set_grad(*gradient++); });
  return sum.loss;
}

}  // namespace heed::lab
