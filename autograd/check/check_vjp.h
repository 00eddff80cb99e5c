// Gradient check for functions that do not use heed. The forward pass and the backward pass are two
// functions on plain arrays of float or double. Start with check_vjp.
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "autograd/check/report.h"

namespace heed::autograd {

/// All inputs, all outputs or all gradients of a function. Each input, output or gradient is one
/// array, with its elements in their order in memory.
template <class T>
using Arrays = std::vector<std::vector<T>>;
/// Returns the outputs of the function at the inputs x.
template <class T>
using ForwardFunction = std::function<Arrays<T>(const Arrays<T>& x)>;
/// Returns the vector-Jacobian product J(x)^T v, where J is the Jacobian and v are the cotangents.
/// `cotangents` contains one array for each output, with the length of the output. The result has
/// one gradient for each input, with the length of the input.
template <class T>
using BackwardFunction = std::function<Arrays<T>(const Arrays<T>& x, const Arrays<T>& cotangents)>;

/// Returns the Jacobian-vector product J(x) t, where the tangents t have the lengths of the inputs.
/// The result has one array for each output.
template <class T>
using JvpFunction = std::function<Arrays<T>(const Arrays<T>& x, const Arrays<T>& tangents)>;
/// Returns the gradient of the dot product of backward(x, v) with the tangents t, with respect to x
/// and to v. The result has one array for each input, then one for each output.
template <class T>
using SecondBackwardFunction = std::function<Arrays<T>(
    const Arrays<T>& x, const Arrays<T>& cotangents, const Arrays<T>& tangents)>;

/// A second backward function throws this if the function has no second derivative.
struct NoSecondDerivative {};

/// A function and its derivatives. Derivatives that are empty are not checked.
template <class T>
struct Derivatives {
  ForwardFunction<T> forward;                ///< computes the outputs
  BackwardFunction<T> backward = {};         ///< computes J(x)^T v
  SecondBackwardFunction<T> backward2 = {};  ///< computes the derivatives of backward
  JvpFunction<T> jvp = {};                   ///< computes J(x) t
};

/// Options of check_vjp, check_jvp and check_derivatives.
struct CheckOptions {
  /// Seed of the random cotangents and directions. The same seed gives the same report.
  std::uint64_t seed = 1;
  /// Largest number of entries that are compared one by one. If the inputs have more entries, about
  /// this many of them are compared: an evenly spread sample, with at least 16 entries of each
  /// input. Each input that has more entries than its sample is also checked in one random
  /// direction, along which all its entries move. There, each output is compared by itself, which
  /// needs one call of backward for each output. More than 10,000 outputs are compared in groups.
  Index max_entries = 1000;
  /// Absolute error of forward that is larger than rounding, such as the tolerance of an iterative
  /// solver. Finite and at least 0. Derivatives that it hides do not count as checked.
  double forward_error = 0;
};

/// Checks all given derivatives of a function:
/// - backward, as check_vjp() does.
/// - jvp, as check_jvp() does. If backward is given too, it is instead checked that both use the
///   same Jacobian: <v, jvp(x, t)> = <backward(x, v), t>, apart from rounding.
/// - if the others are right, backward2: as check_vjp() checks the derivative of forward, but with
///   differences of backward, with respect to x and to v. The second derivative H with respect to x
///   must also be symmetric: u^T H w = w^T H u, apart from rounding. In the entries of CheckReport
///   at order 2, the inputs are counted as those of forward, then v. The verdict is kVacuous if
///   backward2 throws NoSecondDerivative.
/// Throws as check_vjp().
template <class T>
CheckReport check_derivatives(const Derivatives<T>& f, const std::vector<std::vector<T>>& x,
                              const CheckOptions& options = {});

/// Checks that backward(x, v) = J(x)^T v, where J is the Jacobian of forward at x. T is float or
/// double.
///
/// Each compared entry is checked against central differences of forward, with random cotangents of
/// both signs, of sizes 0.5 to 1.5, 32 to 96, and 0.0005 to 0.0015. A size is left
/// out if the gradient would be too large or too small for T. In a further cotangent, every second
/// number is 0. Others are zero for outputs whose rounding errors would hide the derivatives of
/// other outputs.
///
/// The error of the differences is estimated for each output. If two steps contradict each other,
/// the smaller one is right. The tolerance of an entry is twice the root of the sum of the squares
/// of these errors, over the outputs that the entry moves, plus 2^10 rounding errors of the root of
/// the sum of the squares of the entry's terms (CheckedEntry::terms). If the entry fails, it is
/// compared again with other steps, until one entry is refuted, and the measured rounding error of
/// backward is added to the tolerance. Outputs that the entry does not move have no effect on the
/// tolerance, unless the gradient is right only without them: rounding may hide their derivatives.
/// At the end, the gradients are made wrong in several ways, and each wrong version is compared. If
/// a wrong version passes, the verdict is kVacuous.
///
/// An entry does not count as checked if differences cannot distinguish it from the rounding error
/// of forward. If this is true for all entries of an input, the verdict is kVacuous. For each
/// entry, forward runs about 6 to 60 times in double (up to 96 times beside a kink, a pole or an
/// edge of its domain), and about 18 to 54 times in float (up to 216 times). For an entry that
/// seems wrong, these numbers are three times as large in double.
///
/// The verdict is also kWrong if backward returns gradients of other lengths than the inputs, if a
/// value or gradient is NaN or infinite, if a second run with the same arguments returns a result
/// that differs by more than rounding explains (at most about 2^18 roundings of the largest
/// element), or if the gradient of zero cotangents is not zero. Therefore forward and backward must
/// not keep state between calls.
///
/// If forward changes with an input only in jumps, as rounding does, the verdict is kVacuous. A
/// right gradient is also compared in one random direction at the point with the inputs in reversed
/// order, because a backward that uses stored values of an earlier forward may be right only at x.
///
/// If the verdict is kWrong, CheckReport::diagnosis names the mistake, if one of a short list
/// explains the gradient. For this, forward runs again for some of the entries: for all of them if
/// the mistake concerns the gradients of the outputs.
///
/// An entry on a kink, where the left and right slopes of an output differ, is moved and compared
/// there. An entry that stays on a kink is counted (CheckReport::on_kink), and compared only for
/// the outputs that have no kink there. The same holds for an entry along which an output varies
/// faster than the smallest step (CheckReport::too_fast). If no other entry of an input was
/// compared, the verdict is kVacuous.
///
/// Throws ValueError if options.max_entries is less than 1, if
/// options.forward_error is negative or not finite, or if forward returns a different number of
/// values near x than at x. Exceptions of forward and backward pass through.
template <class T>
CheckReport check_vjp(const std::type_identity_t<ForwardFunction<T>>& forward,
                      const std::type_identity_t<BackwardFunction<T>>& backward,
                      const std::vector<std::vector<T>>& x, const CheckOptions& options = {}) {
  return check_derivatives<T>({.forward = forward, .backward = backward}, x, options);
}

/// Checks that jvp(x, t) = J(x) t, where J is the Jacobian of forward at x: as check_vjp() checks
/// backward, for tangents t of a single entry and, if not all entries are compared, for random
/// tangents. Each tangent is also passed 64 times larger and 1024 times smaller. The wrong versions
/// are the jvp with the opposite sign, doubled, and zero. The verdict is also kWrong if jvp is not
/// linear in t, or if a second run returns other bits. Throws as check_vjp().
template <class T>
CheckReport check_jvp(const std::type_identity_t<ForwardFunction<T>>& forward,
                      const std::type_identity_t<JvpFunction<T>>& jvp,
                      const std::vector<std::vector<T>>& x, const CheckOptions& options = {}) {
  return check_derivatives<T>({.forward = forward, .jvp = jvp}, x, options);
}

}  // namespace heed::autograd
