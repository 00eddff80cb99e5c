// Cost of a model: operations per token, activation memory and shapes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nn/layers/transformer.h"

namespace heed::nn {

/// Returns the floating-point operations of forward and backward pass for one token in a full
/// context: 6 x parameters of matrix products + 6 x layers x context x heads x (d_head + d_value)
/// (Chowdhery et al. 2022, appendix B). Masked scores are counted as well.
double flops_per_token(const Transformer& model);

/// Returns the bytes that a forward pass of one sequence stores for the backward pass. The number
/// is measured in such a pass.
double activation_bytes(const Transformer& model);

/// Returns names and shapes [1, T, ...] of the main activations in a forward pass of one sequence
/// of T = context tokens, from the inputs to the logits. Runs no pass.
std::vector<std::pair<std::string, autograd::Shape>> site_shapes(const Transformer& model);

}  // namespace heed::nn
