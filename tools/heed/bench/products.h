// Matrix products, of heed and of other libraries. These are never linked: what the system's loader
// finds is used, what it does not find is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autograd/kernels/reference/gemm.h"
#include "autograd/ops/ops.h"

namespace heed {

/// Sizes of c [m, n] = a b, with a [m, k] (or [k, m] where trans_a) and b [k, n] (or [n, k]).
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  bool operator==(const ProductShape&) const = default;
  double flop() const { return 2.0 * double(m) * double(n * k); }
};

/// A library's single-precision product of row-major matrices.
struct ProductLibrary {
  std::string name;  ///< "heed", "oneDNN", "heed, bfloat16 by amx"
  std::function<void(const ProductShape& shape, const float* a, const float* b, float* c)> multiply;
  std::function<void(int)> set_threads;
};

/// A product as heed's kernels take it.
autograd::kernels::Gemm<float> gemm_of(const ProductShape& p, const float* a, const float* b,
                                       float* c);

/// heed, then those that are there, in this order: oneDNN, OpenBLAS, MKL.
std::vector<ProductLibrary> load_product_libraries();
/// What a training step's speed is a share of: heed and oneDNN; for a step whose operands are
/// rounded also heed with rounded ones, because float32's peak is not its limit.
std::vector<ProductLibrary> load_peak_libraries(autograd::Precision matmul);

}  // namespace heed
