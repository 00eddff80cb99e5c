// Finds a NaN or an infinity in a tensor. autograd/graph/first_non_finite.h finds the op that made
// it.
#pragma once

#include <string>

#include "autograd/tensor/tensor.h"

namespace heed::nn {

/// "nan at [3, 5]" for the first element, row-major, that is not finite; "" if all are. DTypeError
/// unless x is float32 or float64.
std::string first_non_finite(const autograd::Tensor& x);

}  // namespace heed::nn
