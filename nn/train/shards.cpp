#include "nn/train/shards.h"

#include <algorithm>

#include "autograd/base/error.h"
#include "autograd/engine/engine.h"
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

}  // namespace heed::nn
