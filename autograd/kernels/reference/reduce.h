// Sums of raw memory. float32 adds up in float64, float64 in four lanes: no long running total
// in the type that is summed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "autograd/base/dual.h"

namespace heed::autograd::kernels {

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
  using type = std::uint64_t;  // wraps, where int64 would overflow
};
template <>
struct AccumulatorOf<bool> {
  using type = std::uint64_t;  // counts
};
/// The type that sums of T are taken in.
template <class T>
using Accumulator = typename AccumulatorOf<T>::type;

/// Columns that add_columns sums together.
inline constexpr std::int64_t kColumnBlock = 64;

namespace reference {

/// Sum of n elements, `stride` apart.
template <class T>
Accumulator<T> sum(const T* x, std::int64_t n, std::int64_t stride) {
  using Acc = Accumulator<T>;
  std::array<Acc, 4> lane{};
  std::int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::size_t k = 0; k < 4; ++k) lane[k] += Acc(x[(i + std::int64_t(k)) * stride]);
  for (; i < n; ++i) lane[0] += Acc(x[i * stride]);
  return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/// out[c] += sum over r of x[r * row_stride + c] for up to kColumnBlock adjacent columns.
template <class T>
void add_columns(Accumulator<T>* out, const T* x, std::int64_t rows, std::int64_t row_stride,
                 std::int64_t columns) {
  using Acc = Accumulator<T>;
  if (columns == kColumnBlock) {  // a fixed count lets the compiler keep the loop in registers
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < kColumnBlock; ++c) out[c] += Acc(x[r * row_stride + c]);
    return;
  }
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) out[c] += Acc(x[r * row_stride + c]);
}

/// Sum of n squares, adjacent.
template <class T>
double sum_of_squares(const T* x, std::int64_t n) {
  double total = 0;
  for (std::int64_t i = 0; i < n; ++i) total += double(x[i]) * double(x[i]);
  return total;
}

}  // namespace reference
}  // namespace heed::autograd::kernels
