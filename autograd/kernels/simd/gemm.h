// SIMD version of matrix products.
#pragma once

#include "autograd/kernels/reference/gemm.h"

namespace heed::autograd::kernels::simd {

/// Computes the products that `g` describes. The order in which the terms of an output are added
/// depends only on k. The bits of an output therefore do not depend on m, n, the batch, the
/// position of the output or the number of threads.
void gemm(const Gemm<float>& g);
void gemm(const Gemm<double>& g);

}  // namespace heed::autograd::kernels::simd
