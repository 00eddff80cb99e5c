// The error of central differences as a function of their step.
// It shows why a step must be chosen with care.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// Error of differences at one step, divided by the terms of the derivative (CheckedEntry::terms).
/// The error is NaN where f is not finite.
struct StepError {
  double step;  ///< h: each input x moves by at most h * |x|
  /// Error of (f(x + h u) - f(x - h u)) / 2h.
  /// The truncation error falls as h^2 and the rounding error rises as 1/h.
  double two_points;
  /// Error of the two-point differences at h/2, h and 2h, extrapolated (Richardson). gradcheck
  /// uses them. Their truncation error falls as h^6.
  double six_points;
};

/// Returns the errors at the steps 2^-1, 2^-2, ... 2^-34 (ten decades). Each error is the distance
/// between differences and the engine for the derivative of <v, f> along u. v is random and u is
/// x times random numbers in [-1, 1). The inputs must be float64.
/// If f does not depend on its inputs, all errors are 0.
std::vector<StepError> step_errors(const DifferentiableFunction& f, Args inputs,
                                   std::uint64_t seed = 1);

}  // namespace heed::autograd
