// Copies of a tensor and of its elements. What is in detail is for autograd's own files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// Returns x's values in fresh row-major storage, without history.
Tensor detached_copy(const Tensor& x);

namespace detail {

/// Returns x's values in row-major order, to be read: x itself if they lie so, or if x is
/// undefined, else a copy without history.
Tensor row_major(const Tensor& x);

/// y = x, two tensors of one shape and dtype that share no elements. Raises no version.
void copy_into(const Tensor& y, const Tensor& x);

/// A tensor's elements as bytes, whatever its dtype.
struct Elements {
  std::int64_t size;  ///< of one
  std::byte* first;
  explicit Elements(const Tensor& x);
  std::byte* at(std::int64_t i) const { return first + i * size; }
};
/// Copies n elements of `size` bytes from x to y; strides in elements.
void copy_elements(std::byte* y, std::int64_t y_stride, const std::byte* x, std::int64_t x_stride,
                   std::int64_t n, std::int64_t size);

}  // namespace detail
}  // namespace heed::autograd
