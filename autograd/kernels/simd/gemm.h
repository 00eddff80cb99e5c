// SIMD version of matrix products.
#pragma once

#include "autograd/kernels/reference/gemm.h"

namespace heed::autograd::kernels::simd {

/// Computes the products of `g`. The order of the additions of an output depends only on k, so its
/// bits do not depend on m, n, the batch, its position or the number of threads.
void gemm(const Gemm<float>& g);
void gemm(const Gemm<double>& g);

}  // namespace heed::autograd::kernels::simd
