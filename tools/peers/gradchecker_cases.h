// What tools/peers/gradcheckers.py gives to every gradient checker: functions on plain arrays, each
// with a backward pass that is wrong, or right but awkward to check. Knows no checker.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace heed::peers {

using Vectors = std::vector<std::vector<double>>;

struct GradientCase {
  std::string op, what;
  bool wrong = true;
  Vectors x;
  std::function<Vectors(const Vectors& x)> forward;
  std::function<Vectors(const Vectors& x, const Vectors& cotangents)> backward;
  bool single = false;      ///< computes in float; all values are floats
  bool transposed = false;  ///< a checker of tensors gets x [3, 4] as a transposed view
};

/// Each has one output array.
const std::vector<GradientCase>& gradient_cases();
/// Softmax's right gradient times 1 + 10^-d, d = 1 .. 14: the largest d that a checker finds wrong
/// is the digits it sees.
const std::vector<GradientCase>& resolution_cases();

}  // namespace heed::peers
