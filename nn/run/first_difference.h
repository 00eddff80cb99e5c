// Finds the first weight in which two files differ. All comparisons are bitwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autograd/base/shape.h"
#include "nn/io/safetensors.h"

namespace heed::nn {

/// An element of a tensor that differs between two files.
struct WeightDifference {
  std::string tensor;     ///< name of the tensor
  autograd::Shape index;  ///< index of the element
  double a;               ///< value in the first file
  double b;               ///< value in the second file
};

/// Returns the first element whose bits differ, in the order of the tensors of `a`; nothing if all
/// are equal. Throws IoError that names both files unless they have the same tensors with the same
/// shapes and dtypes.
std::optional<WeightDifference> first_difference(const SafeTensors& a, const SafeTensors& b);

}  // namespace heed::nn
