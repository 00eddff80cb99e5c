// The loss of a training step. It reads only the logits at positions with a target.
#pragma once

#include "autograd/ops/ops.h"
#include "nn/layers/transformer.h"

namespace heed::nn {

/// Returns the cross-entropy of the model's logits for inputs [B, T] and targets [B, T], in nats.
/// Targets of kIgnored have no loss. Positions that are ignored in every sequence, as those of the
/// question in an answer task, have no logits and do not run through the MLP of the last block
/// (ForwardContext::logits_at), so that dropout draws other masks than in a pass over all
/// positions. ctx.logits_at must be undefined. Throws the errors of
/// Transformer::forward() and cross_entropy().
Tensor training_loss(const Transformer& model, const Tensor& inputs, const Tensor& targets,
                     const ForwardContext& ctx,
                     autograd::Reduction reduction = autograd::Reduction::kMean);

}  // namespace heed::nn
