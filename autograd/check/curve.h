// The error of central differences as a function of their step.
// It shows why a step must be chosen with care.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// Errors of two difference formulas at one step, divided by the terms of the derivative
/// (CheckedEntry::terms). An error is NaN if f is not finite at a point that the formula evaluates.
struct StepError {
  double step;  ///< h: each input x moves by at most h * |x|
  /// Error of (f(x + h u) - f(x - h u)) / 2h, where u is the direction. The truncation error is
  /// proportional to h^2, and the rounding error to 1/h.
  double two_points;
  /// Error of the Richardson extrapolation from the two-point differences at h/2, h and 2h.
  /// gradcheck uses this formula. Its truncation error is proportional to h^6.
  double six_points;
};

/// Returns the errors at the steps 2^-1, 2^-2, ... 2^-34 (ten decades). Each error is the distance
/// between the derivative of <v, f> along u by differences and the derivative by the engine. v is
/// random, and u is the inputs x times random numbers in [-1, 1). The inputs must be float64. If f
/// does not depend on its inputs, all errors are 0.
std::vector<StepError> step_errors(const DifferentiableFunction& f, Args inputs,
                                   std::uint64_t seed = 1);

}  // namespace heed::autograd
