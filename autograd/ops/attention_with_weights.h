// Parts that the fused attention shares with its definition.
#pragma once

#include <cstdint>

#include "autograd/ops/ops.h"

namespace heed::autograd {

/// Attention composed of public ops. `bias`: that of options, or what stands for it in a graph; may
/// be undefined. `key`: dropout's. ShapeError, DTypeError, ValueError with what does not fit.
AttentionResult attention_definition(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& bias, const AttentionOptions& options,
                                     std::uint64_t key);

/// Draws dropout's key from the options' generator; no dropout draws nothing.
std::uint64_t attention_dropout_key(const AttentionOptions& options);

/// ValueError with the index of the first query that may read no key, of reads_nothing [..., Tq],
/// bool8.
void refuse_rows_of_nothing(const Tensor& reads_nothing);

}  // namespace heed::autograd
