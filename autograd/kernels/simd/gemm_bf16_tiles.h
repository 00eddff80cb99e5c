// Implementation details of gemm_bf16(): the ways (gemm_bf16.h) that the CPU supports, and the two
// ways that use tiles.
#pragma once

#include <vector>

#include "autograd/kernels/reference/gemm.h"

namespace heed::autograd::kernels {

/// An implementation of gemm_bf16().
enum class Bf16Way { kAmx, kAvx512, kPortable };

/// Returns the ways that this CPU supports, fastest first. kPortable is always included.
std::vector<Bf16Way> find_bf16_ways();

/// Computes gemm_bf16() with kAmx or kAvx512. The way must be one of find_bf16_ways().
void gemm_bf16_tiles(const Gemm<float>& g, Bf16Way way);

}  // namespace heed::autograd::kernels
