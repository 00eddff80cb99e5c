// Functions shared by fused attention and its definition.
#pragma once

#include <cstdint>

#include "autograd/ops/ops.h"

namespace heed::autograd {

/// Computes attention from public ops. `bias` replaces options.bias, because a backward pass
/// through the definition supplies the bias as an input of the node; it may be undefined. `key` is
/// the dropout key. Throws the errors of attention_with_weights().
AttentionResult attention_definition(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& bias, const AttentionOptions& options,
                                     std::uint64_t key);

/// Draws the dropout key from the generator of the options. Without dropout it draws nothing and
/// returns 0.
std::uint64_t attention_dropout_key(const AttentionOptions& options);

/// Throws ValueError with the index of the first query that may read no key. `fully_masked`
/// [..., Tq] is bool8 and true for such queries.
void throw_if_fully_masked(const Tensor& fully_masked);

}  // namespace heed::autograd
