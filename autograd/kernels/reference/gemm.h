// Matrix products on raw memory: C = A B (+ bias) or C += A B, any strides, batched.
// The plain reference: what the fast one (simd/gemm.h) is tested against, and what dual numbers
// use.
#pragma once

#include <cstdint>

namespace heed::autograd::kernels {

/// One product, or batch[0] x batch[1] of them. All strides in elements; 0 repeats, negative is
/// fine (not for C).
template <class T>
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;  ///< [m, k]
  std::int64_t a_row = 0, a_col = 0;
  const T* b = nullptr;  ///< [k, n]
  std::int64_t b_row = 0, b_col = 0;
  T* c = nullptr;  ///< [m, n]; must not overlap a or b
  std::int64_t c_row = 0, c_col = 0;
  std::int64_t batch[2] = {1, 1};
  std::int64_t a_batch[2] = {0, 0}, b_batch[2] = {0, 0}, c_batch[2] = {0, 0};
  const T* bias = nullptr;  ///< [n], added to each row of a fresh C; or null
  bool accumulate = false;  ///< C += A B
};

namespace reference {

/// Three plain loops.
template <class T>
void gemm(const Gemm<T>& g) {
  for (std::int64_t o = 0; o < g.batch[0]; ++o)
    for (std::int64_t p = 0; p < g.batch[1]; ++p) {
      const T* a = g.a + o * g.a_batch[0] + p * g.a_batch[1];
      const T* b = g.b + o * g.b_batch[0] + p * g.b_batch[1];
      T* c = g.c + o * g.c_batch[0] + p * g.c_batch[1];
      for (std::int64_t i = 0; i < g.m; ++i)
        for (std::int64_t j = 0; j < g.n; ++j) {
          T total{};
          for (std::int64_t l = 0; l < g.k; ++l)
            total += a[i * g.a_row + l * g.a_col] * b[l * g.b_row + j * g.b_col];
          T& out = c[i * g.c_row + j * g.c_col];
          out = (g.accumulate ? out : g.bias ? g.bias[j] : T{}) + total;
        }
    }
}

}  // namespace reference
}  // namespace heed::autograd::kernels
