// Batches of matrix products C = A B + bias or C += A B on arrays with any strides. This header
// defines the arguments and the reference version. Tests compare the fast version (simd/gemm.h)
// with the reference version, and dual numbers use the reference version.
#pragma once

#include "autograd/base/index.h"

namespace heed::autograd::kernels {

/// Arguments of a batch of batch[0] * batch[1] matrix products. All strides are in elements. The
/// strides of A and B may be 0 or negative. The strides of C must not map two outputs to one
/// element.
template <class T>
struct Gemm {
  Index m = 0;                ///< number of rows of A and C
  Index n = 0;                ///< number of columns of B and C
  Index k = 0;                ///< number of columns of A and rows of B; if k = 0, A B is 0
  const T* a = nullptr;       ///< A, shape [m, k]
  Index a_row = 0;            ///< stride between rows of A
  Index a_col = 0;            ///< stride between columns of A
  const T* b = nullptr;       ///< B, shape [k, n]
  Index b_row = 0;            ///< stride between rows of B
  Index b_col = 0;            ///< stride between columns of B
  T* c = nullptr;             ///< C, shape [m, n]; must not overlap A, B or bias
  Index c_row = 0;            ///< stride between rows of C
  Index c_col = 0;            ///< stride between columns of C
  Index batch[2] = {1, 1};    ///< sizes of the two batch axes
  Index a_batch[2] = {0, 0};  ///< strides of A along the batch axes
  Index b_batch[2] = {0, 0};  ///< strides of B along the batch axes
  Index c_batch[2] = {0, 0};  ///< strides of C along the batch axes
  const T* bias = nullptr;    ///< n adjacent values, added to each row of A B; null means 0
  bool accumulate = false;    ///< if true, computes C += A B and ignores bias
};

namespace reference {

/// Computes the products that `g` describes with plain loops.
template <class T>
void gemm(const Gemm<T>& g) {
  for (Index o = 0; o < g.batch[0]; ++o)
    for (Index p = 0; p < g.batch[1]; ++p) {
      const T* a = g.a + o * g.a_batch[0] + p * g.a_batch[1];
      const T* b = g.b + o * g.b_batch[0] + p * g.b_batch[1];
      T* c = g.c + o * g.c_batch[0] + p * g.c_batch[1];
      for (Index i = 0; i < g.m; ++i)
        for (Index j = 0; j < g.n; ++j) {
          T total{};
          for (Index l = 0; l < g.k; ++l)
            total += a[i * g.a_row + l * g.a_col] * b[l * g.b_row + j * g.b_col];
          T& out = c[i * g.c_row + j * g.c_col];
          out = (g.accumulate ? out : g.bias ? g.bias[j] : T{}) + total;
        }
    }
}

}  // namespace reference
}  // namespace heed::autograd::kernels
