// Norms of a gradient with respect to the projection weights of attention, for each head.
#pragma once

#include <span>
#include <vector>

#include "nn/layers/attention.h"

namespace heed::nn {

/// Norms of a gradient in the blocks of W_Q, W_K, W_V and W_O that one head uses. Heads that share
/// keys and values also share W_K and W_V, and so have equal norms of these.
struct WeightGradientNorms {
  double dW_Q;  ///< norm of the gradient in the head's block of W_Q
  double dW_K;  ///< norm of the gradient in the head's block of W_K
  double dW_V;  ///< norm of the gradient in the head's block of W_V
  double dW_O;  ///< norm of the gradient in the head's block of W_O
};

/// Returns the norms of each head of a layer. `weights` must contain all weights and biases of
/// `attention`, and gradients[i] must be the gradient with respect to weights[i].
std::vector<WeightGradientNorms> weight_gradient_norms(const MultiHeadAttention& attention,
                                                       std::span<const Tensor> weights,
                                                       std::span<const Tensor> gradients);

}  // namespace heed::nn
