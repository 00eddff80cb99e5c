// Matrix products of heed and of other libraries. The other libraries are never linked: they are
// loaded with dlopen, and a library that is not installed is left out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autograd/kernels/reference/gemm.h"
#include "autograd/ops/ops.h"

namespace heed {

/// Sizes of the product c = a b. The shapes are c [m, n], a [m, k] ([k, m] if trans_a) and b [k, n]
/// ([n, k] if trans_b).
struct ProductShape {
  std::int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  bool operator==(const ProductShape&) const = default;
  double flop() const { return 2.0 * double(m) * double(n * k); }
};

/// A library that multiplies row-major float32 matrices.
struct ProductLibrary {
  std::string name;  ///< for example "heed", "oneDNN", "heed, bfloat16 by amx"
  std::function<void(const ProductShape& shape, const float* a, const float* b, float* c)> multiply;
  std::function<void(int)> set_threads;
};

/// Returns the arguments of heed's gemm kernels for a product.
autograd::kernels::Gemm<float> gemm_of(const ProductShape& p, const float* a, const float* b,
                                       float* c);

/// Returns heed and the installed libraries, in the order oneDNN, OpenBLAS, MKL.
std::vector<ProductLibrary> load_product_libraries();
/// Returns the libraries whose fastest product is the peak speed for MFU: heed and oneDNN. For
/// bfloat16 operands it adds heed's bfloat16 product, which can be faster than the float32 peak.
std::vector<ProductLibrary> load_peak_libraries(autograd::Precision matmul);

}  // namespace heed
