// Copies of a sequence in one batch, each with another change: what one pass tells of all of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nn/tasks/task.h"

namespace heed::nn {

/// Copies run at a time: memory is that of a batch, however many there are.
inline constexpr std::int64_t kCopies = 32;

/// Sequence b of n copies of a batch of B is its sequence b % B; inputs and targets alone.
Batch copies_of(const Batch& batch, std::int64_t n);

/// "blocks.1.attn.hook_z" of layer 1 and "attn.hook_z".
std::string block_site(std::int64_t layer, std::string_view site);

/// The elements, whatever the dtype.
std::vector<double> doubles(const Tensor& x);

}  // namespace heed::nn
