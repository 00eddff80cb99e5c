#include "nn/train/training_loss.h"

#include "autograd/base/pool.h"
#include "autograd/tensor/create.h"
#include "nn/tasks/task.h"

namespace heed::nn {

using namespace autograd;

namespace {

// Returns the columns of targets [B, T] with a target in some row, int64 [P]. The tensor is
// undefined if these are all columns, or if every target is ignored.
Tensor columns_with_targets(const Tensor& targets) {
  const std::int64_t B = targets.size(0), T = targets.size(1);
  const Tensor flat = contiguous(targets);
  const std::int64_t* data = flat.data<std::int64_t>();
  PoolVector<std::int64_t> columns;
  columns.reserve(std::size_t(T));
  for (std::int64_t t = 0; t < T; ++t)
    for (std::int64_t b = 0; b < B; ++b)
      if (data[b * T + t] != kIgnored) {
        columns.push_back(t);
        break;
      }
  const std::int64_t count = std::ssize(columns);
  return count == T || count == 0 ? Tensor()
                                  : from_data(std::span<const std::int64_t>(columns), {count});
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

}  // namespace heed::nn
