// Matrix products on the widest SIMD this machine has.
#pragma once

#include "autograd/kernels/reference/gemm.h"

namespace heed::autograd::kernels::simd {

/// An output's order of additions is that of k alone:
/// the same bits for any m, n, batch and number of threads.
void gemm(const Gemm<float>& g);
void gemm(const Gemm<double>& g);

}  // namespace heed::autograd::kernels::simd
