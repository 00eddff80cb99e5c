// Creation of tensors: constants, ranges, data, random numbers.
#pragma once

#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "autograd/tensor/random.h"
#include "autograd/tensor/tensor.h"

namespace heed::autograd {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// Uninitialized, row-major. ShapeError on a negative size.
Tensor empty(const Shape& shape, DType dtype = float32);
Tensor empty_like(const Tensor& x);
Tensor full(const Shape& shape, double value, DType dtype = float32);
Tensor zeros(const Shape& shape, DType dtype = float32);
Tensor ones(const Shape& shape, DType dtype = float32);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
Tensor full_like(const Tensor& x, double value);
/// start, start + step, ... below end (above, for a negative step). Default dtype int64.
Tensor arange(double start, double end, double step = 1, DType dtype = int64);
Tensor arange(std::int64_t end);
/// `steps` numbers from start to end, both included (torch.linspace: symmetric rounding).
Tensor linspace(double start, double end, std::int64_t steps, DType dtype = float32);
/// Ones on the diagonal of [n, m] (m = n by default).
Tensor eye(std::int64_t n, std::int64_t m = -1, DType dtype = float32);

/// From values in row-major order; ShapeError unless values.size() fits the shape.
template <Element T>
Tensor from_data(std::span<const T> values, const Shape& shape);
/// Integers of any width become int64.
template <class T>
Tensor from_data(const std::vector<T>& values, const Shape& shape) {
  if constexpr (Element<T>) {
    return from_data(std::span<const T>(values), shape);
  } else {
    static_assert(std::is_integral_v<T> && (sizeof(T) < 8 || std::is_signed_v<T>),
                  "from_data takes float, double, bool, and integers that fit int64");
    return from_data(std::vector<std::int64_t>(values.begin(), values.end()), shape);
  }
}
Tensor from_data(const std::vector<bool>& values, const Shape& shape);
/// Literals: tensor({{1, 2}, {3, 4}}), float32 unless said otherwise.
Tensor tensor(double value, DType dtype = float32);
Tensor tensor(std::initializer_list<double> values, DType dtype = float32);
Tensor tensor(std::initializer_list<std::initializer_list<double>> rows, DType dtype = float32);

// Random numbers: PyTorch's CPU stream, bit for bit, from `g` (default: the thread's generator).
/// Uniform in [0, 1).
Tensor rand(const Shape& shape, DType dtype = float32, Generator& g = default_generator());
/// Standard normal.
Tensor randn(const Shape& shape, DType dtype = float32, Generator& g = default_generator());
/// Uniform integers in [low, high), int64.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
               Generator& g = default_generator());
/// A random permutation of 0..n-1, int64.
Tensor randperm(std::int64_t n, Generator& g = default_generator());
/// bool8, true with probability p.
Tensor bernoulli(double p, const Shape& shape, Generator& g = default_generator());

}  // namespace heed::autograd
