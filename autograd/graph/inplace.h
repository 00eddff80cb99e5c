// In-place writes. They are allowed only on tensors that no graph tracks, and on leaves under
// NoGrad (as in optimizers).
//
// Every function throws ValueError for the result of a recorded op and for a leaf that requires
// grad outside NoGrad, DTypeError for dual64, and ShapeError for a tensor that repeats elements by
// stride 0. Each call raises the version of the storage, so that a saved value that became stale is
// an error.
#pragma once

#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// Sets every element of x to `value`. Throws ValueError if x is int64 and `value` is out of its
/// range.
void fill_(const Tensor& x, double value);
/// Copies `source` into x. Throws ShapeError or DTypeError unless both have the same shape and
/// dtype. The two may overlap.
void copy_(const Tensor& x, const Tensor& source);
/// Adds y to x. Throws ShapeError or DTypeError unless both have the same shape and dtype, float32
/// or float64. y must not overlap x.
void add_(const Tensor& x, const Tensor& y);
/// Throws the errors above and raises the version of x. Kernels call it before they write into x.
void prepare_in_place(std::string_view op, const Tensor& x);

}  // namespace heed::autograd
