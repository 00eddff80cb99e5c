// Checks a backward pass that is not heed's: two functions on plain arrays, in float or double.
// Start with check_vjp. For one line in a test of your own: catch2.h, googletest.h.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "autograd/check/report.h"

namespace heed::autograd {

/// The inputs, outputs or gradients of a function: each an array, in memory order.
template <class T>
using Arrays = std::vector<std::vector<T>>;
template <class T>
using ForwardFunction = std::function<Arrays<T>(const Arrays<T>& x)>;
/// J(x)^T cotangents: one gradient for each input, as long as it.
template <class T>
using BackwardFunction = std::function<Arrays<T>(const Arrays<T>& x, const Arrays<T>& cotangents)>;

struct CheckOptions {
  std::uint64_t seed = 1;
  /// Inputs with more entries together are sampled: this many, spread evenly and at least 16 of
  /// each input. A random direction of each input sees the rest.
  std::int64_t max_entries = 1000;
};

/// Checks that backward(x, v) = J(x)^T v, J the Jacobian of forward at x: by central differences in
/// each entry, with random cotangents of both signs. Tolerances are measured, not given: twice the
/// difference's own error and, where that alone would fail, the noise of backward. Then the
/// gradients, made wrong in several ways (mutations.h), go through the same comparison: if one
/// passes, the verdict is kVacuous.
///
/// An entry that differences cannot tell from forward's rounding is not checked, and an input none
/// of whose entries they can is kVacuous. Forward runs 6 to 30 times for each entry in double, up
/// to 180 times in float.
///
/// Also wrong: other lengths, NaN or infinity, other bits from a second run, a gradient from zero
/// cotangents. Both functions get x on its own and may keep nothing. T: float or double.
template <class T>
CheckReport check_vjp(const std::type_identity_t<ForwardFunction<T>>& forward,
                      const std::type_identity_t<BackwardFunction<T>>& backward,
                      const std::vector<std::vector<T>>& x, const CheckOptions& options = {});

}  // namespace heed::autograd
