// Functions that create tensors from constants, ranges, data and random numbers.
//
// Every result is row-major, is not part of a graph and does not require grad. Shapes have up to
// eight axes; sizes may be 0. All functions throw ShapeError if a size is negative, or if the
// tensor would have more than 2^40 elements. Functions that convert a double to int64 truncate the
// double toward 0. They throw ValueError if it is outside the range of int64.
#pragma once

#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "autograd/tensor/random.h"
#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// Positive infinity.
inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// Returns a tensor with uninitialized values.
Tensor empty(const Shape& shape, DType dtype = float32);
/// Returns a tensor with uninitialized values and the shape and dtype of x.
Tensor empty_like(const Tensor& x);
/// Returns a tensor in which every element is `value`.
Tensor full(const Shape& shape, double value, DType dtype = float32);
/// Returns a tensor filled with 0.
Tensor zeros(const Shape& shape, DType dtype = float32);
/// Returns a tensor filled with 1.
Tensor ones(const Shape& shape, DType dtype = float32);
/// Returns a tensor filled with 0, with the shape and dtype of x.
Tensor zeros_like(const Tensor& x);
/// Returns a tensor filled with 1, with the shape and dtype of x.
Tensor ones_like(const Tensor& x);
/// Returns a tensor filled with `value`, with the shape and dtype of x.
Tensor full_like(const Tensor& x, double value);
/// Returns the one-dimensional tensor start, start + step, ... while the number is below `end` (or,
/// for a negative step, above it). Rounding can add one number that is about `end`. The dtype is
/// int64 by default. Throws ValueError if `step` is 0 or NaN, if `start` or `end` is not finite, or
/// if there would be 2^40 elements or more.
Tensor arange(double start, double end, double step = 1, DType dtype = int64);
/// Returns the int64 tensor 0, 1, ..., end - 1.
Tensor arange(Index end);
/// Returns an n x m matrix with ones on the diagonal and zeros elsewhere. A negative m means m = n.
Tensor eye(Index n, Index m = -1, DType dtype = float32);

///@{
/// Returns a tensor of this shape with copies of the values, which are in row-major order. The
/// dtype corresponds to T; all integer types except bool become int64. Throws ShapeError unless the
/// number of values equals the number of elements of the shape.
template <Element T>
Tensor from_data(std::span<const T> values, const Shape& shape);
template <class T>
Tensor from_data(const std::vector<T>& values, const Shape& shape) {
  if constexpr (Element<T>) {
    return from_data(std::span<const T>(values), shape);
  } else {
    static_assert(std::is_integral_v<T> && (sizeof(T) < 8 || std::is_signed_v<T>),
                  "from_data takes float, double, bool, and integers that fit int64");
    return from_data(std::vector<Index>(values.begin(), values.end()), shape);
  }
}
Tensor from_data(const std::vector<bool>& values, const Shape& shape);
///@}
///@{
/// Returns a tensor of rank 0, 1 or 2 with the listed values, for example
/// tensor({{1, 2}, {3, 4}}). Throws ShapeError if the rows have different lengths.
Tensor tensor(double value, DType dtype = float32);
template <class T = double>  // so that the next function is preferred for {{1}}
Tensor tensor(std::initializer_list<std::type_identity_t<T>> values, DType dtype = float32);
Tensor tensor(std::initializer_list<std::initializer_list<double>> rows, DType dtype = float32);
///@}

// The functions below draw from the generator `g`, by default the generator of the calling thread.
// Their numbers equal PyTorch's numbers on the CPU bit for bit. random.h states the details and the
// errors.

/// Returns uniform random numbers in [0, 1). Throws DTypeError unless the dtype is float32 or
/// float64.
Tensor rand(const Shape& shape, DType dtype = float32, Generator& g = default_generator());
/// Returns standard normal random numbers. Throws DTypeError unless the dtype is float32 or
/// float64.
Tensor randn(const Shape& shape, DType dtype = float32, Generator& g = default_generator());
/// Returns uniform random int64 numbers in [low, high). Throws ValueError unless low < high.
Tensor randint(Index low, Index high, const Shape& shape, Generator& g = default_generator());
/// Returns a random permutation of 0, ..., n - 1 as an int64 tensor of shape [n].
Tensor randperm(Index n, Generator& g = default_generator());
/// Returns a bool8 tensor whose elements are true with probability p. Throws ValueError unless
/// 0 <= p <= 1.
Tensor bernoulli(double p, const Shape& shape, Generator& g = default_generator());

}  // namespace heed::autograd
