// Cost of a model: operations per token and activation memory.
#pragma once

#include "nn/lab/names.h"
#include "nn/layers/transformer.h"

namespace heed::lab {

/// Returns the floating-point operations of forward and backward pass for one token in a full
/// context: 6 x parameters of matrix products + 6 x layers x context x heads x (d_head + d_value)
/// (Chowdhery et al. 2022, appendix B). Masked scores are counted as well.
double flops_per_token(const Transformer& model);

/// Returns the bytes that a forward pass of one sequence stores for the backward pass. The number
/// is measured in such a pass.
double activation_bytes(const Transformer& model);

}  // namespace heed::lab
