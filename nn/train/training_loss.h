// The loss of a training step. It reads only the logits at positions with a target.
#pragma once

#include "autograd/ops/ops.h"
#include "nn/layers/transformer.h"

namespace heed::nn {

/// Returns the cross-entropy of the model's logits for inputs [B, T] and targets [B, T], in nats.
/// Targets of kIgnored have no loss. For positions that are ignored in every sequence, such as
/// the question in an answer task, logits and the MLP of the last block are not computed
/// (ForwardContext::logits_at). Dropout therefore draws other masks than in a pass over all
/// positions. ctx.logits_at must be undefined. Throws the errors of Transformer::forward() and
/// cross_entropy().
Tensor training_loss(const Transformer& model, const Tensor& inputs, const Tensor& targets,
                     const ForwardContext& ctx,
                     autograd::Reduction reduction = autograd::Reduction::kMean);

}  // namespace heed::nn
