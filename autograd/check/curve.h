// The error of central differences against their step: why a step has to be chosen.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// What differences at one step are off by, relative to the terms of the derivative (gradcheck.h);
/// NaN where f is not finite.
struct StepError {
  double step;        ///< every input moves by at most this part of itself
  double two_points;  ///< (f(x + h u) - f(x - h u)) / 2h: falls with h^2, rises as 1/h
  double six_points;  ///< those at h/2, h and 2h, extrapolated (Richardson), as gradcheck does: h^6
};

/// The derivative of <v, f> at float64 inputs x along u, v and u / x random, by the engine and by
/// differences: at steps 2^-1, 2^-2, ... 2^-34, ten decades. An f that does not depend on its
/// inputs has errors of 0.
std::vector<StepError> step_errors(const DifferentiableFunction& f, Args inputs,
                                   std::uint64_t seed = 1);

}  // namespace heed::autograd
