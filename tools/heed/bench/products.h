// Matrix products of heed and of other libraries. The other libraries are not linked. They are
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

/// Returns heed, followed by those of oneDNN, OpenBLAS and MKL that are installed.
std::vector<ProductLibrary> load_product_libraries();
/// Returns the libraries whose fastest product defines the peak speed for MFU (model FLOPs
/// utilization): heed and oneDNN. If `matmul` is bfloat16, the list also contains heed's bfloat16
/// product, because it can be faster than every float32 product.
std::vector<ProductLibrary> load_peak_libraries(autograd::Precision matmul);

}  // namespace heed
