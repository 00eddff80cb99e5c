// Where two runs part: the first weight that differs, bit by bit.
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

/// The first number, in the order of `a`, whose bits differ. IoError naming both files if one has a
/// tensor that the other has not, or of another shape or dtype.
std::optional<WeightDifference> first_difference(const SafeTensors& a, const SafeTensors& b);

/// Two runs, checkpoint by checkpoint.
struct RunsDifference {
  std::vector<std::int64_t> steps;  ///< compared, in order; the last one may be the final weights'
  std::optional<WeightDifference> first;  ///< at the last of `steps`; nothing: all that was
                                          ///< compared is equal
};

/// Compares the checkpoints of equal steps in order, then the final weights if both runs have them
/// and they say that they are of one step, and stops where something differs. IoError as
/// first_difference, or for a file that cannot be read.
RunsDifference compare_weights(const std::filesystem::path& run_a,
                               const std::filesystem::path& run_b);

}  // namespace heed::nn
