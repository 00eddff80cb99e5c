// What a model costs: work per token, memory, shapes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nn/layers/transformer.h"

namespace heed::nn {

/// Operations of forward and backward for one token in a full context: 6 x parameters of matrix
/// products + 6 x layers x context x heads x (d_head + d_value) (Chowdhery et al. 2022, appendix B;
/// masked work counted).
double flops_per_token(const Transformer& model);

/// Bytes that are kept for the backward pass, per sequence: measured in a forward pass.
double activation_bytes(const Transformer& model);

/// Names and shapes [1, T, ...] of what flows through the model, in a forward pass of a sequence as
/// long as the context.
std::vector<std::pair<std::string, autograd::Shape>> site_shapes(const Transformer& model);

}  // namespace heed::nn
