// Inside of gemm_bf16: the ways that a CPU has, and those by tiles.
#pragma once

#include <vector>

#include "autograd/kernels/reference/gemm.h"

namespace heed::autograd::kernels {

enum class Bf16Way { kAmx, kAvx512, kPortable };

/// Those of this CPU, fastest first; kPortable is one of them.
std::vector<Bf16Way> find_bf16_ways();

/// gemm_bf16 by kAmx or kAvx512, which must be one of find_bf16_ways().
void gemm_bf16_tiles(const Gemm<float>& g, Bf16Way way);

}  // namespace heed::autograd::kernels
