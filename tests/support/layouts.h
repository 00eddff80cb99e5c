// Helpers for tests of values: copies of a tensor in other memory layouts, comparison of tensors,
// and plain row-major indexing.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "autograd/graph/inplace.h"
#include "autograd/ops/ops.h"
#include "nn/io/safetensors.h"
#include "tests/support/catch.h"

namespace heed::autograd::testing {

/// A copy of a tensor in a certain memory layout.
struct LayoutVariant {
  const char* name;  ///< "contiguous", "transposed", "sliced" or "negative strides"
  Tensor x;
};

/// Returns four copies of x: contiguous, stored with the axes in reverse order, a slice of a larger
/// tensor, and stored with negative strides. The other elements of the larger tensor are NaN, or 1
/// if the dtype of x is not a floating dtype.
inline std::vector<LayoutVariant> layouts(const Tensor& x) {
  Dims reversed;
  for (int i = x.rank() - 1; i >= 0; --i) reversed.push_back(i);
  const Tensor transposed = permute(contiguous(permute(x, reversed)), reversed);
  Shape wide = x.shape();
  for (int i = 0; i < x.rank(); ++i) wide[i] = 2 * wide[i] + 1;
  const bool has_nan = is_floating(x.dtype());
  Tensor hole = full(wide, has_nan ? std::nan("") : 1, x.dtype());
  Tensor flipped = x;
  for (int i = 0; i < x.rank(); ++i) {
    hole = slice(hole, i, 1, wide[i], 2);
    flipped = flip(flipped, i);
  }
  copy_(hole, x);
  flipped = contiguous(flipped);
  for (int i = 0; i < x.rank(); ++i) flipped = flip(flipped, i);
  return {{"contiguous", contiguous(x)},
          {"transposed", transposed},
          {"sliced", hole},
          {"negative strides", flipped}};
}

using V = std::vector<double>;

/// Returns all elements as double in row-major order, for any dtype and layout.
inline std::vector<double> values(const Tensor& x) { return to(x, float64).to_vector<double>(); }

/// Returns a float64 leaf that requires grad.
inline Tensor leaf(std::initializer_list<double> v) { return tensor(v, float64).requires_grad_(); }

/// A tensor of shape `shape` is broadcast to a larger shape, and `index` is an index into the
/// larger shape. Returns the row-major position in `shape` of the element that is broadcast to
/// `index`.
inline std::size_t place(const Dims& index, const Shape& shape) {
  Index flat = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const Index at = index[index.rank() - shape.rank() + i];
    flat = flat * shape[i] + (shape[i] == 1 ? 0 : at);
  }
  return std::size_t(flat);
}

/// Returns the largest difference, divided by the largest expected magnitude or 1, whichever is
/// larger. If a difference is NaN or the sizes differ, the result is infinity.
inline double error(const std::vector<double>& got, const std::vector<double>& expected) {
  if (got.size() != expected.size()) return kInf;
  double scale = 1, worst = 0;
  for (const double e : expected) scale = std::max(scale, std::abs(e));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double d = std::abs(got[i] - expected[i]);
    if (!(d <= worst)) worst = std::isnan(d) ? kInf : d;
  }
  return worst / scale;
}

/// Returns the largest magnitude of an element, or 0 if x is empty.
inline double largest(const Tensor& x) { return x.numel() ? max(abs(x)).item() : 0; }
/// Returns the largest magnitude of an element of a - b, computed in float64.
inline double distance(const Tensor& a, const Tensor& b) {
  return largest(to(a, float64) - to(b, float64));
}
/// Returns true if the shapes are equal and no difference exceeds `tolerance` times the largest
/// magnitude in `want`.
inline bool close(const Tensor& got, const Tensor& want, double tolerance = 1e-13) {
  return got.shape() == want.shape() && largest(got - want) <= tolerance * largest(want);
}
/// Returns random standard normal values in float64. They depend only on shape and seed.
inline Tensor draw(const Shape& shape, std::uint64_t seed) {
  Generator g(seed);
  return randn(shape, float64, g);
}
/// Returns true if every element is 0; NaN is not 0.
inline bool is_zero(const Tensor& x) { return all(eq(x, 0.0)).item() != 0; }

/// Returns the largest relative rounding error of a dtype: half the distance between 1 and the next
/// larger number.
inline double unit_roundoff(DType dtype) { return dtype == float32 ? 0x1p-24 : 0x1p-53; }

/// Returns the largest |got - want| / (scale * unit roundoff of got's dtype) of all elements. If an
/// element is NaN or infinite in only one of `got` and `want`, the result is infinity.
inline double worst_error(const Tensor& got, const V& want, const V& scale) {
  const V g = values(got);
  REQUIRE(g.size() == want.size());
  double worst = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (g[i] == want[i] || (std::isnan(g[i]) && std::isnan(want[i]))) continue;
    const double error = std::abs(g[i] - want[i]) / (scale[i] * unit_roundoff(got.dtype()));
    if (!(error <= worst)) worst = std::isnan(error) ? kInf : error;
  }
  return worst;
}

using nn::same_bits;

}  // namespace heed::autograd::testing
