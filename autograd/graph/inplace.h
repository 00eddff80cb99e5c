// In-place writes. They are allowed only on tensors that no graph tracks, and on leaves under
// NoGrad (as in optimizers).
//
// Every function checks the tensor x into which it writes. It throws ValueError if x is the result
// of a recorded op, or if x is a leaf that requires grad and NoGrad is not active. It throws
// DTypeError if x is tracked64, and ShapeError if x repeats elements with stride 0. Each
// call increments the version of the storage. If a backward pass needs a saved value that was
// overwritten, the backward pass throws ValueError.
#pragma once

#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// Sets every element of x to `value`. Throws ValueError if x is int64 and `value` is outside the
/// range of int64.
void fill_(const Tensor& x, double value);
/// Copies `source` into x. Throws ShapeError or DTypeError unless x and `source` have the same
/// shape and dtype. The memory of x and of `source` may overlap.
void copy_(const Tensor& x, const Tensor& source);
/// Adds y to x. Throws ShapeError unless x and y have the same shape, and DTypeError unless both
/// are float32 or both are float64. The memory of x and of y may overlap.
void add_(const Tensor& x, const Tensor& y);
/// Checks that `op` may write into x, and increments the version of the storage of x. Throws the
/// errors that every in-place function throws. Optimizers call this function before their kernels
/// write into x.
void prepare_in_place(std::string_view op, const Tensor& x);

}  // namespace heed::autograd
