// Functions that copy tensors and elements. The functions in namespace detail are only for
// autograd's own files.
#pragma once

#include <cstddef>

#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// Returns a row-major copy of x with its shape and dtype. The copy is not part of any graph.
/// Throws ValueError if x is undefined.
Tensor detached_copy(const Tensor& x);

namespace detail {

/// Returns x itself if x is contiguous or undefined, otherwise a row-major copy of x. Only read the
/// result, because it may share the memory of x.
Tensor row_major(Tensor x);

/// Copies the values of x to y. x and y must have the same shape and dtype, and must not share
/// elements. Does not change the version of y's storage.
void copy_into(const Tensor& y, const Tensor& x);

/// Access to the elements of a tensor of any dtype as bytes.
struct Elements {
  Index size;        ///< size of one element in bytes
  std::byte* first;  ///< the element with index [0, ..., 0]
  /// Refers to the elements of x, which must be defined and outlive this object.
  explicit Elements(const Tensor& x);
  /// Returns the address that is i elements after the first element.
  std::byte* at(Index i) const { return first + i * size; }
};
/// Copies n elements of `size` bytes each from x to y. Strides are in elements. `size` must be the
/// size of a dtype. The arrays must not overlap.
void copy_elements(std::byte* y, Index y_stride, const std::byte* x, Index x_stride, Index n,
                   Index size);

}  // namespace detail
}  // namespace heed::autograd
