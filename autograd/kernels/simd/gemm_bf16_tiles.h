// Internal functions of gemm_bf16() (gemm_bf16.h). They list the implementations (ways) that the
// CPU supports, and implement the two ways that use tiles.
#pragma once

#include <vector>

#include "autograd/kernels/reference/gemm.h"

namespace heed::autograd::kernels {

/// An implementation of gemm_bf16().
enum class Bf16Way { kAmx, kAvx512, kPortable };

/// Returns the implementations of gemm_bf16() that this CPU supports, fastest first. kPortable is
/// always included.
std::vector<Bf16Way> find_bf16_ways();

/// Computes gemm_bf16(g) with kAmx or kAvx512. `way` must be in the list that find_bf16_ways()
/// returns.
void gemm_bf16_tiles(const Gemm<float>& g, Bf16Way way);

}  // namespace heed::autograd::kernels
