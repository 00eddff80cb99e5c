// Which elements a dropout keeps, for a run of them at once.
#pragma once

#include <cstdint>
#include <span>

#include "autograd/kernels/reference/philox.h"

namespace heed::autograd::kernels::simd {

/// out[k] = mask.keep(first + k) as 0 or 1, for a mask of p > 0.
void keep(const DropoutMask& mask, std::uint64_t first, std::span<std::uint8_t> out);

}  // namespace heed::autograd::kernels::simd
