#include "nn/train/shards.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "autograd/base/error.h"
#include "autograd/base/parallel.h"
#include "autograd/engine/engine.h"
#include "autograd/graph/inplace.h"
#include "autograd/graph/observer.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/ops.h"
#include "nn/train/cost/memory.h"
#include "nn/train/streams.h"
#include "nn/train/training_loss.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::int64_t kAddGrain = 1 << 13;  // elements that a thread adds at a time

double targets_of(const Batch& batch) {
  const Tensor targets = contiguous(batch.targets);
  const std::int64_t* first = targets.data<std::int64_t>();
  const auto ignored = std::count(first, first + targets.numel(), kIgnored);
  return std::max(1.0, double(targets.numel() - ignored));
}

double tokens_in_shard(const RunConfig& c, std::int64_t shards) {
  return double(c.batch) / double(shards) * double(c.model.context);
}

double operations(const RunConfig& c, std::int64_t shards, std::int64_t vocab,
                  std::int64_t classes) {
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

// Adds `more` to `sum`, in place if both are defined.
void add(Tensor& sum, const Tensor& more) {
  if (!sum.defined())
    sum = more;
  else if (more.defined())
    add_(sum, more);
}

}  // namespace

ShardGradients shard_gradients(Transformer& model, const Batch& batch, std::int64_t shard,
                               std::int64_t shards, Generator& dropout) {
  const std::int64_t rows = batch.inputs.size(0) / shards;
  check<ValueError>(rows * shards == batch.inputs.size(0), "shards", shards,
                    " does not divide the batch of ", batch.inputs.size(0), "; choose a divisor");
  const auto part = [&](const Tensor& x) { return slice(x, 0, shard * rows, (shard + 1) * rows); };
  for_each_tensor(model, [](Tensor& p) { p.zero_grad(); });
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
  for_each_tensor(model, [&](Tensor& p) { result.gradients.push_back(p.grad()); });
  return result;
}

Generator shard_dropout(std::int64_t seed, std::int64_t step, std::int64_t shard) {
  return stream_of(mix(mix(std::uint64_t(seed)) + std::uint64_t(step)) + std::uint64_t(shard));
}

ShardGradients sum_shards(std::int64_t first, std::int64_t last,
                          const std::function<ShardGradients(std::int64_t)>& f) {
  if (last - first == 1) return f(first);
  const std::int64_t middle = first + (last - first) / 2;
  ShardGradients left = sum_shards(first, middle, f);
  const ShardGradients right = sum_shards(middle, last, f);
  const NoGrad guard;
  left.loss += right.loss;
  for (std::size_t i = 0; i < left.gradients.size(); ++i)
    add(left.gradients[i], right.gradients[i]);
  return left;
}

void set_gradients(Transformer& model, const ShardGradients& sum) {
  auto gradient = sum.gradients.begin();
  for_each_tensor(model, [&](Tensor& p) { p.set_grad(*gradient++); });
}

bool shards_need_teams(const RunConfig& c, std::int64_t vocab, std::int64_t classes) {
  return operations(c, c.shards, vocab, classes) >= 100e6;
}

void resolve_shards(RunConfig& c, std::int64_t vocab, std::int64_t classes) {
  const double weights = weight_bytes(c.model, vocab, classes);
  const double least_tokens = weights <= 0x1p19 ? 128 : weights <= 0x1p23 ? 256 : 512;
  const auto fits = [&](std::int64_t shards) {
    return c.batch % shards == 0 && tokens_in_shard(c, shards) >= least_tokens &&
           operations(c, shards, vocab, classes) >= 10e6;
  };
  if (c.shards == 0)
    for (c.shards = 1; c.shards < 64 && fits(2 * c.shards);) c.shards *= 2;
  c.shards = std::max(c.shards, c.accumulate);
}

std::int64_t shards_side_by_side(std::int64_t shards, std::int64_t limit, double bytes,
                                 double gradient_bytes, double free_bytes) {
  auto groups = std::int64_t(std::bit_floor(
      std::uint64_t(std::max<std::int64_t>(1, std::min<std::int64_t>(limit, shards)))));
  const auto needed = [&] {
    return double(groups) * (bytes + gradient_bytes * std::log2(double(shards / groups)));
  };
  while (groups > 1 && !(needed() <= free_bytes / 4)) groups /= 2;
  return groups;
}

// Adds the sums of the groups. These additions are the upper part of the tree of sums. The result
// is in the tensors of the first group. Threads add different elements.
ShardGradients ShardThreads::sum_groups(std::int64_t groups) {
  const auto for_each_addition = [groups](auto add) {
    for (std::int64_t stride = 1; stride < groups; stride *= 2)
      for (std::int64_t i = 0; i < groups; i += 2 * stride)
        add(std::size_t(i), std::size_t(i + stride));
  };
  for_each_addition(
      [&](std::size_t i, std::size_t j) { groups_[i].sum.loss += groups_[j].sum.loss; });
  struct Chunk {
    std::size_t parameter;
    std::int64_t begin, end;
  };
  PoolVector<Chunk> chunks;
  const PoolVector<Tensor>& gradients = groups_[0].sum.gradients;
  for (std::size_t p = 0; groups > 1 && p < gradients.size(); ++p) {
    const auto has_gradient = [p](const Group& g) { return g.sum.gradients[p].defined(); };
    if (std::all_of(groups_.begin(), groups_.begin() + groups, has_gradient))
      for (std::int64_t begin = 0, n = gradients[p].numel(); begin < n; begin += kAddGrain)
        chunks.push_back({p, begin, std::min(begin + kAddGrain, n)});
    else
      for_each_addition([&](std::size_t i, std::size_t j) {
        add(groups_[i].sum.gradients[p], groups_[j].sum.gradients[p]);
      });
  }
  parallel_for(std::ssize(chunks), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t c = first; c < last; ++c) {
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
  return std::move(groups_[0].sum);
}

ShardGradients ShardThreads::sum(
    Transformer& model, std::int64_t first, std::int64_t last, std::int64_t groups, bool teams,
    const std::function<ShardGradients(Transformer& own, std::int64_t shard)>& f) {
  if (OpObserver::exists()) groups = 1;
  const std::int64_t each = (last - first) / groups;
  while (std::ssize(groups_) < groups)
    groups_.push_back({groups_.empty() ? std::nullopt : std::optional(clone(model)), {}, {}});
  const auto run = [&](std::int64_t g) {
    Group& group = groups_[std::size_t(g)];
    try {
      group.sum = {}, group.error = nullptr;
      if (group.own) share_parameters(model, *group.own);
      const std::int64_t begin = first + g * each;
      const auto one = [&](std::int64_t shard) { return f(group.own ? *group.own : model, shard); };
      group.sum = sum_shards(begin, begin + each, std::cref(one));  // a copy would allocate
      if (group.own) for_each_tensor(*group.own, [](Tensor& p) { p.zero_grad(); });
    } catch (...) {
      group.error = std::current_exception();
    }
  };
  if (teams)
    parallel_teams(groups, std::cref(run));
  else
    parallel_for(groups, 1, [&](std::int64_t g, std::int64_t) { run(g); });
  for (std::int64_t g = 0; g < groups; ++g)
    if (groups_[std::size_t(g)].error) std::rethrow_exception(groups_[std::size_t(g)].error);
  return sum_groups(groups);
}

}  // namespace heed::nn
