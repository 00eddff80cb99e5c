// The first weight in which two runs differ, bit by bit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "autograd/base/shape.h"
#include "nn/io/safetensors.h"

namespace heed::nn {

/// One number of a tensor, in two files.
struct WeightDifference {
  std::string tensor;
  autograd::Shape index;
  double a, b;
};

/// Returns the first number, in the order of `a`, whose bits differ. IoError that names both files
/// unless both have the same tensors with the same shapes and dtypes.
std::optional<WeightDifference> first_difference(const SafeTensors& a, const SafeTensors& b);

/// Two runs, checkpoint by checkpoint.
struct RunsDifference {
  std::vector<std::int64_t> steps;  ///< compared, in order; the last one may be the final weights'
  std::optional<WeightDifference> first;  ///< at the last of `steps`; nothing: all that was
                                          ///< compared is equal
};

/// Compares the checkpoints of equal steps in order, then the final weights if both runs have them
/// at the same step. Stops at the first difference. IoError as
/// first_difference, or for a file that cannot be read.
RunsDifference compare_weights(const std::filesystem::path& run_a,
                               const std::filesystem::path& run_b);

}  // namespace heed::nn
