// Whether a tensor holds a NaN or an infinity. Which op made it: autograd/graph/first_non_finite.h.
#pragma once

#include <string>

#include "autograd/tensor/tensor.h"

namespace heed::nn {

/// "nan at [3, 5]" for the first element, row-major, that is not finite; "" if all are. DTypeError
/// unless x is float32 or float64.
std::string first_non_finite(const autograd::Tensor& x);

}  // namespace heed::nn
