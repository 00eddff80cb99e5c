// Matrix products of heed and of other libraries, and the products of a model. The other libraries
// are not linked. They are loaded with dlopen, and a library that is not installed is left out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "autograd/kernels/reference/gemm.h"
#include "nn/lab/train/config.h"

namespace heed {

/// Sizes of the product c = a b. The shapes are c [m, n], a [m, k] ([k, m] if trans_a) and b [k, n]
/// ([n, k] if trans_b).
struct ProductShape {
  Index m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  bool operator==(const ProductShape&) const = default;
  double flop() const { return 2.0 * double(m) * double(n * k); }
};

/// One of the matrix products of a model.
struct ModelProduct {
  ProductShape shape;
  Index count = 0;  ///< number of such products
  /// True for attention, whose products are independent of each other. The products of linear
  /// layers follow one after the other.
  bool attention = false;
};

/// Returns the products of a forward pass over `sequences` sequences with `queries` tokens each,
/// for a model like those of bench_presets(). A query of attention has the keys of a full context,
/// but causality lets it read only half of them on average. Therefore only half of the (layer,
/// sequence, head) triples are counted, rounded up. This also holds for generation, whose tokens
/// have one query each.
std::vector<ModelProduct> forward_products(const lab::RunConfig& config, Index vocabulary,
                                           Index sequences, Index queries);
/// Returns the products of forward and backward pass over `sequences` sequences, for example those
/// of one shard. A second computation of the scores in the backward pass is not counted.
std::vector<ModelProduct> training_products(const lab::RunConfig& config, Index vocabulary,
                                            Index sequences);

/// Returns a function that computes all products of `list` with heed's kernels, once in each of
/// `shards` shards. The threads compute shards side by side, or share the products of one shard.
/// All products of a shape read the same operands, so that their speed is that of `heed-bench
/// gemm`.
std::function<void()> products_alone(const std::vector<ModelProduct>& list, Index shards);

/// A library that multiplies row-major float32 matrices.
struct ProductLibrary {
  std::string name;  ///< for example "heed" or "oneDNN"
  std::function<void(const ProductShape& shape, const float* a, const float* b, float* c)> multiply;
  std::function<void(int)> set_threads;
};

/// Returns the arguments of heed's gemm kernels for a product.
autograd::kernels::Gemm<float> gemm_of(const ProductShape& p, const float* a, const float* b,
                                       float* c);

/// Returns heed, followed by those of oneDNN, OpenBLAS and MKL that are installed.
std::vector<ProductLibrary> load_product_libraries();
/// Returns the libraries whose fastest product defines the peak speed for MFU (model FLOPs
/// utilization): heed and oneDNN.
std::vector<ProductLibrary> load_peak_libraries();

}  // namespace heed
