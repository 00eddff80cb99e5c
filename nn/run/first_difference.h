// Finds the first weight in which two runs differ. All comparisons are bitwise.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

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

/// Result of compare_weights().
struct RunsDifference {
  /// Steps whose weights were compared, in increasing order.
  std::vector<std::int64_t> steps;
  /// The first difference, which is in the weights of the last of `steps`. Empty if all compared
  /// weights are equal.
  std::optional<WeightDifference> first;
};

/// Compares the weights of two runs: first the checkpoints of the steps that both runs have, in
/// order, then the final weights if both runs have the same final step. Stops at the first
/// difference. Throws IoError like first_difference(), and if a file cannot be read.
RunsDifference compare_weights(const std::filesystem::path& run_a,
                               const std::filesystem::path& run_b);

}  // namespace heed::nn
