// Test cases for gradient checkers: functions on plain arrays, each with a backward pass that is
// wrong, or correct but difficult to check. tools/peers/gradcheckers.py runs every checker on them.
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
  bool single = false;      ///< true: computes in float, and all values are floats
  bool transposed = false;  ///< true: PyTorch receives x [3, 4] as a transposed view
};

/// Returns 20 cases with a wrong and 5 with a correct backward pass. Each function has one output
/// array.
const std::vector<GradientCase>& gradient_cases();
/// Returns 14 cases, in which the gradient of softmax is multiplied by 1 + 10^-d, for d = 1 to 14.
/// If a checker reports all cases up to d as wrong, its resolution is d digits.
const std::vector<GradientCase>& resolution_cases();

}  // namespace heed::peers
