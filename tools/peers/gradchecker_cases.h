// Test cases for gradient checkers: functions on plain arrays, each with a backward pass that is
// wrong, or right but awkward to check. tools/peers/gradcheckers.py gives them to every checker.
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
  bool single = false;      ///< computes in float, and all values are floats
  bool transposed = false;  ///< checkers of tensors receive x [3, 4] as a transposed view
};

/// Returns the 20 wrong and the 5 right cases. Each function has one output array.
const std::vector<GradientCase>& gradient_cases();
/// Returns 14 cases: the gradient of softmax times 1 + 10^-d, for d = 1 to 14. The largest d that a
/// checker reports as wrong is its resolution in digits.
const std::vector<GradientCase>& resolution_cases();

}  // namespace heed::peers
