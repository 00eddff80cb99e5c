#include "nn/train/shards.h"

#include <algorithm>
#include <bit>
#include <exception>

#include "autograd/base/error.h"
#include "autograd/base/parallel.h"
#include "autograd/engine/engine.h"
#include "autograd/graph/observer.h"
#include "autograd/ops/ops.h"
#include "nn/train/streams.h"
#include "nn/train/training_loss.h"

namespace heed::nn {

using namespace autograd;

namespace {

double targets_of(const Batch& batch) {
  const auto targets = batch.targets.to_vector<std::int64_t>();
  const auto ignored = std::count(targets.begin(), targets.end(), kIgnored);
  return std::max(1.0, double(std::int64_t(targets.size()) - ignored));
}

// Returns leaves that share the memory of the parameters of `model`, but have gradients of their
// own.
std::vector<Tensor> own_leaves(const Transformer& model) {
  std::vector<Tensor> leaves;
  for (const NamedTensor& p : parameters(model)) {
    leaves.push_back(p.tensor.detach());
    if (p.tensor.requires_grad()) leaves.back().requires_grad_();
  }
  return leaves;
}

}  // namespace

ShardGradients shard_gradients(Transformer& model, const Batch& batch, std::int64_t shard,
                               std::int64_t shards, Generator& dropout, Probe* probe) {
  const std::int64_t rows = batch.inputs.size(0) / shards;
  check<ValueError>(rows * shards == batch.inputs.size(0), "accumulate", shards,
                    " does not divide the batch of ", batch.inputs.size(0));
  const auto part = [&](const Tensor& x) {
    return contiguous(slice(x, 0, shard * rows, (shard + 1) * rows));
  };
  const std::vector<NamedTensor> all = parameters(model);
  for (const NamedTensor& p : all) p.tensor.zero_grad();
  const Tensor loss =
      training_loss(model, part(batch.inputs), part(batch.targets),
                    {.training = true, .generator = &dropout, .probe = probe}, Reduction::kSum) *
      (1 / targets_of(batch));
  backward(loss);
  ShardGradients result;
  result.loss = loss.item();
  for (const NamedTensor& p : all) result.gradients.push_back(p.tensor.grad());
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
  for (std::size_t i = 0; i < left.gradients.size(); ++i) {
    Tensor& sum = left.gradients[i];
    const Tensor& more = right.gradients[i];
    if (more.defined()) sum = sum.defined() ? sum + more : more;
  }
  return left;
}

std::int64_t shards_side_by_side(std::int64_t shards, int threads, double bytes,
                                 double free_bytes) {
  const auto most =
      std::uint64_t(std::max<std::int64_t>(1, std::min<std::int64_t>(threads, shards)));
  auto groups = std::int64_t(std::bit_floor(most));
  while (groups > 1 && !(double(groups) * bytes <= free_bytes / 4)) groups /= 2;
  return groups;
}

ShardGradients ShardThreads::sum(
    Transformer& model, std::int64_t first, std::int64_t last, std::int64_t groups,
    const std::function<ShardGradients(Transformer& own, std::int64_t shard)>& f) {
  if (OpObserver::exists()) groups = 1;
  const auto count = std::size_t(groups);
  const std::int64_t each = (last - first) / groups;
  while (models_.size() + 1 < count) models_.push_back(clone(model));
  std::vector<std::vector<Tensor>> leaves(count);
  for (std::size_t g = 1; g < count; ++g) leaves[g] = own_leaves(model);
  std::vector<ShardGradients> sums(count);
  std::vector<std::exception_ptr> errors(count);
  const auto run = [&](std::size_t g) {
    Transformer& own = g > 0 ? models_[g - 1] : model;
    auto leaf = leaves[g].begin();
    if (g > 0)  // frees the gradients of the last call
      for_each_parameter(own, [&](const std::string&, Tensor& p) { p = std::move(*leaf++); });
    const std::int64_t begin = first + std::int64_t(g) * each;
    sums[g] = sum_shards(begin, begin + each, [&](std::int64_t shard) { return f(own, shard); });
  };
  parallel_for(groups, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto g = std::size_t(begin); g < std::size_t(end); ++g) try {
        run(g);
      } catch (...) {
        errors[g] = std::current_exception();
      }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return sum_shards(0, groups, [&](std::int64_t g) { return std::move(sums[std::size_t(g)]); });
}

}  // namespace heed::nn
