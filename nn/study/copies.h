// Copies of a sequence in one batch, each with another change: what one pass tells of all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/tasks/task.h"

namespace heed::nn {

/// Copies run at a time: memory is that of a batch, however many there are.
inline constexpr std::int64_t kCopies = 32;

/// Sequence b of n copies of a batch of B is its sequence b % B; inputs and targets alone.
Batch copies_of(const Batch& batch, std::int64_t n);

/// The elements, whatever the dtype.
std::vector<double> doubles(const Tensor& x);

}  // namespace heed::nn
