// Checks a backward pass that is not heed's: two functions on plain arrays, in float or double.
// Start with check_vjp. For one line in a test of your own: catch2.h, googletest.h.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <type_traits>
#include <vector>

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
  /// each input, and a random direction of each input.
  std::int64_t max_entries = 1000;
};

enum class Verdict {
  kRight,
  kWrong,
  kVacuous,  ///< a gradient that is plainly another would have passed: nothing is proven
};

/// A gradient's entry, or its product with a random direction, by both ways.
struct CheckedEntry {
  static constexpr std::int64_t kDirection = -1;
  std::size_t input = 0;
  std::int64_t at = 0;  ///< in memory order, or kDirection
  double given = 0, expected = 0;
  double tolerance = 0;
  double terms = 0;  ///< sum over the outputs of |cotangent * its derivative|
  double step = 0;   ///< of x, or of the direction
  /// -log10(|given - expected| / terms), from 0 to 16; NaN where not finite.
  double digits() const;
};

/// An entry of x that sat on a kink, where there is no derivative, and where it was checked.
struct MovedEntry {
  std::size_t input;
  std::int64_t at;
  double from, to;
};

struct CheckReport {
  Verdict verdict = Verdict::kVacuous;
  std::string message;       ///< why it is not right: entry and both values, or what else is wrong
  CheckedEntry worst;        ///< the entry whose error is the largest part of its tolerance
  double digits = 0;         ///< the fewest, of the entries that differences can tell from rounding
  std::int64_t checked = 0;  ///< entries that differences could tell from rounding
  std::int64_t entries = 0;  ///< of x
  std::int64_t mutants = 0, killed = 0;  ///< of the given gradients
  std::int64_t equivalent = 0;           ///< mutants that do not differ, e.g. a zero negated
  std::uint64_t seed = 0;
  std::vector<MovedEntry> moved;
  bool ok() const { return verdict == Verdict::kRight; }
};
std::ostream& operator<<(std::ostream& out, const CheckReport& report);

/// Is backward(x, v) = J(x)^T v, J the Jacobian of forward at x? By central differences in each
/// entry, with random cotangents of both signs. Tolerances are measured, not given: twice the
/// difference's own error, and the noise of backward. Then the gradients, made wrong in several
/// ways, go through the same comparison: if one passes, the verdict is kVacuous.
///
/// An entry that differences cannot tell from forward's rounding is not checked, and an input none
/// of whose entries they can is kVacuous. Forward runs some 45 times for each entry in double, 110
/// in float.
///
/// Also wrong: other lengths, NaN or infinity, other bits from a second run, a gradient from zero
/// cotangents. Both functions get x on its own and may keep nothing. T: float or double.
template <class T>
CheckReport check_vjp(const std::type_identity_t<ForwardFunction<T>>& forward,
                      const std::type_identity_t<BackwardFunction<T>>& backward,
                      const std::vector<std::vector<T>>& x, const CheckOptions& options = {});

}  // namespace heed::autograd
