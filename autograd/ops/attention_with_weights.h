// Functions shared by the fused attention op and its definition, which is made of public ops.
#pragma once

#include <cstdint>

#include "autograd/ops/ops.h"

namespace heed::autograd {

/// Computes attention from public ops. Uses `bias`, which may be undefined, and ignores
/// options.bias: a backward pass through the definition supplies the bias as an input of the node.
/// `key` is the dropout key. Throws the errors of attention_with_weights().
AttentionResult attention_definition(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& bias, const AttentionOptions& options,
                                     std::uint64_t key);

/// Draws the dropout key from the generator of the options. If options.dropout is 0, draws nothing
/// and returns 0.
std::uint64_t attention_dropout_key(const AttentionOptions& options);

}  // namespace heed::autograd
