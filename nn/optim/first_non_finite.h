// Finds the first NaN or infinity in a tensor. autograd/graph/first_non_finite.h finds the op that
// produced it.
#pragma once

#include <string>
#include <vector>

#include "nn/io/named_tensor.h"

namespace heed::nn {

/// Returns value and index of the first element in row-major order that is not finite, such as
/// "nan at [3, 5]". Returns "" if all elements are finite. Throws DTypeError unless x is float32 or
/// float64.
std::string first_non_finite(const autograd::Tensor& x);
/// Returns name, value and index of the first such element of the tensors of floating-point
/// numbers, such as "tok.weight is nan at [3, 5]", or "".
std::string first_non_finite(const std::vector<NamedTensor>& tensors);

}  // namespace heed::nn
