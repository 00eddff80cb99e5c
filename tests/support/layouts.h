// The same values in other memory, and plain row-major indexing: what value tests are made of.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "autograd/graph/inplace.h"
#include "autograd/ops/ops.h"
#include "tests/support/catch.h"

namespace heed::autograd::testing {

struct LaidOut {
  const char* name;
  Tensor x;
};

/// x as it is, stored in reversed order of axes, cut out of NaN, and with negative strides.
inline std::vector<LaidOut> layouts(const Tensor& x) {
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

/// All elements as double, row-major, whatever the dtype and layout.
inline std::vector<double> values(const Tensor& x) { return to(x, float64).to_vector<double>(); }

/// A float64 leaf that requires grad.
inline Tensor leaf(std::initializer_list<double> v) { return tensor(v, float64).requires_grad_(); }

/// The row-major place in `shape` of an index of a shape it broadcasts to.
inline std::size_t place(const Dims& index, const Shape& shape) {
  std::int64_t flat = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::int64_t at = index[index.rank() - shape.rank() + i];
    flat = flat * shape[i] + (shape[i] == 1 ? 0 : at);
  }
  return std::size_t(flat);
}

/// The largest entry of |x|; 0 of none.
// Largest difference, in units of the largest expected value (at least 1). NaN gives infinity.
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

inline double largest(const Tensor& x) { return x.numel() ? max(abs(x)).item() : 0; }
/// The largest difference, in float64.
inline double distance(const Tensor& a, const Tensor& b) {
  return largest(to(a, float64) - to(b, float64));
}
/// Whether no entry is farther off than the tolerance, as a part of the largest wanted.
inline bool close(const Tensor& got, const Tensor& want, double tolerance = 1e-13) {
  return got.shape() == want.shape() && largest(got - want) <= tolerance * largest(want);
}
/// Standard normal, float64, the same for the same seed.
inline Tensor draw(const Shape& shape, std::uint64_t seed) {
  Generator g(seed);
  return randn(shape, float64, g);
}
/// Whether every entry is 0; NaN is not.
inline bool is_zero(const Tensor& x) { return all(eq(x, 0.0)).item() != 0; }

/// Half the distance of neighbors at 1: the largest relative rounding error.
inline double unit_roundoff(DType dtype) { return dtype == float32 ? 0x1p-24 : 0x1p-53; }

/// Largest |got - want| in units of the dtype's roundoff of `scale`; inf where NaN or inf differ.
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

/// Same shape, dtype and bits (NaN equals NaN).
inline bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype()) return false;
  const std::vector<double> x = values(a), y = values(b);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i]) && std::isnan(y[i])) continue;
    if (x[i] != y[i] || std::signbit(x[i]) != std::signbit(y[i])) return false;
  }
  return true;
}

}  // namespace heed::autograd::testing
