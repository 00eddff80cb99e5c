// Checks a backward pass that does not use heed: two functions on plain arrays of float or double.
// Start with check_vjp. For a check in one line of your own tests, see catch2.h and googletest.h.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "autograd/check/report.h"

namespace heed::autograd {

/// All inputs, all outputs or all gradients of a function: one array for each. An array holds its
/// elements in the order in which they are in memory; check_vjp does not need their shapes.
template <class T>
using Arrays = std::vector<std::vector<T>>;
/// Returns the outputs of the function at the inputs x.
template <class T>
using ForwardFunction = std::function<Arrays<T>(const Arrays<T>& x)>;
/// Returns the vector-Jacobian product J(x)^T cotangents: one gradient for each input, of the
/// length of that input. There is one cotangent for each output, of the length of that output.
template <class T>
using BackwardFunction = std::function<Arrays<T>(const Arrays<T>& x, const Arrays<T>& cotangents)>;

/// Options of check_vjp.
struct CheckOptions {
  /// Seed of the random cotangents and directions. The same seed gives the same report.
  std::uint64_t seed = 1;
  /// Largest number of entries that are compared one by one. If the inputs have more entries, a
  /// sample of about this many is compared. It is spread evenly and has at least 16 entries of each
  /// input. The rest is checked together, in one random direction for each input.
  std::int64_t max_entries = 1000;
};

/// Checks that backward(x, v) = J(x)^T v, where J is the Jacobian of forward at x. T is float or
/// double.
///
/// Each compared entry is checked against central differences of forward, with random cotangents
/// of both signs. The tolerance is measured: it is twice the error of the difference. If the entry
/// fails with it, the measured rounding error of backward is added. Then the gradients are made
/// wrong in several ways (mutations.h) and compared again. If a wrong one passes, the verdict is
/// kVacuous.
///
/// An entry is not checked if differences cannot distinguish it from the rounding error of forward.
/// If this holds for all entries of an input, the verdict is kVacuous. For each entry, forward runs
/// 6 to 30 times in double and up to 180 times in float.
///
/// The verdict is also kWrong if backward returns gradients of other lengths than the inputs, if a
/// value or gradient is NaN or infinite, if a second run returns other bits, or if the gradient of
/// zero cotangents is not zero. Both functions receive their own copy of x and must not keep state
/// between calls.
///
/// Throws ValueError if options.max_entries is less than 1,
/// or if forward returns another number of values near x than at x.
template <class T>
CheckReport check_vjp(const std::type_identity_t<ForwardFunction<T>>& forward,
                      const std::type_identity_t<BackwardFunction<T>>& backward,
                      const std::vector<std::vector<T>>& x, const CheckOptions& options = {});

}  // namespace heed::autograd
