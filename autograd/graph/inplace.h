// Writing into tensors: only into untracked leaves, or into leaves under NoGrad (optimizers do).
#pragma once

#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// x[...] = value. Raises x's version. ValueError for a tensor with a history, or a leaf that
/// requires grad outside NoGrad; DTypeError for dual64; ShapeError for an expanded tensor.
void fill_(const Tensor& x, double value);
/// x[...] = source, of equal shape and dtype. Errors as fill_.
void copy_(const Tensor& x, const Tensor& source);
/// x += y, of equal shape and dtype, float32 or float64. Errors as fill_. y may not overlap x.
void add_(const Tensor& x, const Tensor& y);
/// Throws as fill_ would, then raises the version: for kernels that write into a leaf.
void prepare_in_place(std::string_view op, const Tensor& x);

}  // namespace heed::autograd
