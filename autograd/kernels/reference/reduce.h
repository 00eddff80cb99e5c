// Reference version of sums. To limit rounding errors, float32 is accumulated in float64, and
// float64 sums are pairwise.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "autograd/base/dual.h"
#include "autograd/base/index.h"

namespace heed::autograd::kernels {

/// Maps a scalar type to the type of its accumulator. By default, the accumulator has the scalar
/// type itself.
template <class T>
struct AccumulatorOf {
  using type = T;
};
template <>
struct AccumulatorOf<float> {
  using type = double;
};
template <>
struct AccumulatorOf<std::int64_t> {
  using type = std::uint64_t;  // unsigned, because an overflow of int64 is undefined behavior
};
template <>
struct AccumulatorOf<bool> {
  using type = std::uint64_t;  // the sum is the number of true values
};
/// The type in which values of type T are summed.
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

/// The longest row of attention whose float32 sums are not divided into blocks.
///
/// Matrix products, and the sum of the gradients of several uses of a tensor, add in float32. All
/// other float32 sums are accumulated in float64, or use blocked summation: blocks of 8 vectors, of
/// 32 rows or of 32 keys of attention are summed in float32, and the sums of the blocks in float64.
/// With b additions per block, the error is at most about b 2^-24 times the sum of the magnitudes
/// of the terms, for any number of blocks (Blanchard, Higham and Mary, A Class of Fast and Accurate
/// Summation Algorithms, 2020). tests/autograd/ops/accumulation_test.cpp requires at most
/// 16 * 2^-24.
inline constexpr Index kShortRow = 1024;

/// The number of columns per call for which add_columns() is fastest.
inline constexpr Index kColumnBlock = 64;

namespace reference {

/// Returns f(begin) + ... + f(end - 1), and calls f in this order. The halves of a range of more
/// than `block` values are summed separately (pairwise summation), so that sums of float64 have an
/// error of few roundings.
template <class F>
auto sum_of(Index begin, Index end, F&& f, Index block = 128) -> decltype(f(begin)) {
  if (end - begin > block) {
    const Index middle = begin + (end - begin) / 2;
    const auto first = sum_of(begin, middle, f, block);
    return first + sum_of(middle, end, f, block);
  }
  std::array<decltype(f(begin)), 4> lane{};
  for (; begin + 4 <= end; begin += 4)
    for (std::size_t k = 0; k < 4; ++k) lane[k] += f(begin + Index(k));
  for (; begin < end; ++begin) lane[0] += f(begin);
  return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/// Returns the sum of n elements of x. Neighboring elements are `stride` elements apart in memory.
template <class T>
Accumulator<T> sum(const T* x, Index n, Index stride) {
  const Index block = sizeof(T) < sizeof(Accumulator<T>) ? n : 128;  // float64 is enough
  return sum_of(
      0, n, [&](Index i) { return Accumulator<T>(x[i * stride]); }, block);
}

/// Computes out[c] += sum over r of x[r * row_stride + c] for each column c. If `order` is not
/// null, order[r] is used instead of r.
template <class T>
void add_columns(Accumulator<T>* out, const T* x, Index rows, Index row_stride, Index columns,
                 const Index* order = nullptr) {
  const auto add_row = [&](Index r, Index count) {
    const T* from = x + (order ? order[r] : r) * row_stride;
    for (Index c = 0; c < count; ++c) out[c] += Accumulator<T>(from[c]);
  };
  // A fixed count lets the compiler keep the sums in registers.
  for (Index r = 0; r < rows; ++r)
    columns == kColumnBlock ? add_row(r, kColumnBlock) : add_row(r, columns);
}

/// Returns the sum of the squares of n adjacent values, in float64.
template <class T>
double sum_of_squares(const T* x, Index n) {
  return sum_of(0, n, [&](Index i) { return double(x[i]) * double(x[i]); });
}

}  // namespace reference
}  // namespace heed::autograd::kernels
