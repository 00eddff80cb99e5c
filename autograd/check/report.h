// The result of a gradient check. gradcheck and check_vjp both return it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/base/error.h"
#include "autograd/check/diagnosis.h"

namespace heed::autograd {

/// Source of the derivatives that a gradient is compared with.
enum class Oracle {
  kDifferences,  ///< central differences of the forward pass
  kDual,         ///< gradcheck: dual numbers; others: a given derivative (CheckReport::exact_names)
};
/// All oracles, in the order of the enum.
inline constexpr Oracle kAllOracles[] = {Oracle::kDifferences, Oracle::kDual};

/// Returns a number with 10 digits.
std::string number_text(double x);
/// Returns the texts of all parts, without separators between them.
template <class... Parts>
std::string joined_text(const Parts&... parts) {
  std::string text;
  (Part(parts).append_to(text), ...);
  return text;
}

/// Outcome of a check.
enum class Verdict {
  kRight,    ///< every comparison passed
  kWrong,    ///< a comparison failed; CheckReport::message names the entry
  kVacuous,  ///< a clearly wrong gradient would pass too, so nothing is proven
};

/// One compared number: an entry of a gradient,
/// or the product of a gradient with a random direction.
struct CheckedEntry {
  /// Value of `at` for a random direction.
  static constexpr Index kDirection = -1;
  std::size_t input = 0;          ///< index of the input, from 0
  Index at = kDirection;          ///< row-major position in that input, or kDirection
  std::vector<Index> index = {};  ///< index of the entry; empty for a direction
  double given = 0;               ///< value from the backward pass
  double expected = 0;            ///< value from the oracle
  /// The entry is a sum of terms: one for each output or, if dual numbers are used, one for each
  /// path from the entry to an output. `terms` is the sum of their absolute values. Rounding errors
  /// are proportional to `terms`, so digits are counted relative to `terms`.
  double terms = 0;
  /// Largest |given - expected| that passes. It depends on the estimated errors at this entry.
  double tolerance = 0;
  double step = 0;  ///< step of the differences, in units of the input; 0 for dual numbers
  /// Returns |given - expected| / terms. Returns 0 if the two values are equal, and NaN if one of
  /// them is not finite.
  double error() const;
  /// Returns the number of decimal digits that agree: -log10(error()), clamped to 0 to 16.
  /// Returns NaN if a value is not finite.
  double digits() const;
  /// Returns a text such as "input 0 at [3]".
  std::string name() const;
};

/// Findings of one oracle at one order.
struct OracleReport {
  Index checked = 0;       ///< number of compared entries that are above the rounding noise
  CheckedEntry worst;      ///< the worst failure or, if none, the entry with the fewest digits
  CheckedEntry direction;  ///< comparison in a random direction, if an input was sampled
};

/// An entry of x that was moved before the check, because it was on a kink, where f has no
/// derivative.
struct MovedEntry {
  CheckedEntry entry;  ///< entry that was compared
  double from = 0;     ///< its value in x
  double to = 0;       ///< its value in the check
  /// Returns a text such as "input 0 at [2] from 0 to 0.0625".
  std::string text() const;
};

/// How many kinds of calls passed a check.
struct KindCounts {
  Index passed = 0;  ///< number of kinds that passed
  Index of = 0;      ///< number of kinds that were checked; 0 if the check was not made
  /// The kinds that do not exist for the function or for its language, each with the reason, such
  /// as "missing gradient: one output".
  std::vector<std::string> not_applicable = {};
};

/// Result of the check of a function in float16 or bfloat16 (low_precision.h).
struct LowPrecision {
  int inputs = 0;           ///< number of points x that were checked; 0 if there was no such check
  double ratio = 0;         ///< R: the error as a multiple of that of the plain version
  double factor = 1;        ///< the fitted factor that is farthest from 1
  double factor_error = 0;  ///< its standard error
};

/// Result of gradcheck, check_vjp, check_jvp or check_derivatives.
struct CheckReport {
  Verdict verdict = Verdict::kRight;  ///< outcome
  /// Reason for a verdict other than kRight, such as the wrong entry with both values.
  /// Empty if the verdict is kRight.
  std::string message;
  Diagnosis diagnosis;         ///< mistake that explains a wrong gradient (not by gradcheck)
  int order = 1;               ///< highest order that was checked: 1 or 2
  OracleReport oracles[2][2];  ///< findings, indexed by [order - 1][oracle]
  Index entries[2] = {};       ///< number of entries of all inputs, indexed by order - 1
  /// Number of mutants, wrong versions of the derivatives that were compared (not by gradcheck).
  Index mutants = 0;
  Index killed = 0;               ///< number of mutants that were rejected
  Index equivalent = 0;           ///< number of mutants that equal the right gradient, as -0 for 0
  std::vector<MovedEntry> moved;  ///< entries that were moved off a kink
  /// Number of entries that stay on a kink wherever they are moved. They were compared only for the
  /// outputs that have no kink there.
  Index on_kink = 0;
  /// Number of entries along which forward varies faster than the smallest step of differences.
  /// They were compared as those on a kink.
  Index too_fast = 0;
  std::uint64_t seed = 0;  ///< seed of the random cotangents and directions
  /// Memory layouts of the arrays. They are checked if all comparisons passed, but not by
  /// gradcheck.
  KindCounts layouts;
  KindCounts repeated;         ///< kinds of repeated calls, checked as `layouts`
  LowPrecision low_precision;  ///< in float16 and bfloat16, instead of compared entries
  /// Name of the second oracle, indexed by order - 1: in check_derivatives, it is another
  /// derivative that the function gave.
  std::string exact_names[2] = {"dual numbers", "dual numbers"};

  /// Returns true if the verdict is kRight.
  bool ok() const { return verdict == Verdict::kRight; }
  /// Returns ok(). With Catch2, CHECK(check_vjp(f, backward, x)) prints the report if it fails.
  explicit operator bool() const { return ok(); }
  /// Sets the verdict and the message, the texts of all parts, if the verdict is still kRight.
  /// Otherwise does nothing.
  template <class... Parts>
  void refuse(Verdict why_not, const Parts&... why) {
    if (ok()) verdict = why_not, message = joined_text(why...);
  }
  /// Returns the findings of one oracle at order o.
  const OracleReport& by(int o, Oracle oracle) const { return oracles[o - 1][int(oracle)]; }
  /// Returns the findings of one oracle at the highest order.
  OracleReport& by(Oracle oracle) { return oracles[order - 1][int(oracle)]; }
  /// Returns the name of an oracle at order o.
  std::string oracle_name(int o, Oracle oracle) const;
  /// Returns the worst entry that was compared with differences at order 1. check_vjp makes no
  /// other comparisons.
  const CheckedEntry& worst() const { return by(1, Oracle::kDifferences).worst; }
  /// Returns the number of entries that were checked with finite differences at order 1.
  Index checked() const { return by(1, Oracle::kDifferences).checked; }
  /// Returns the digits of worst(), or 0 if checked() is 0.
  double digits() const { return checked() > 0 ? worst().digits() : 0; }
  /// Returns the larger error() of the worst entries of the two oracles at order o. NaN counts as
  /// the largest.
  double error(int o) const;
};
/// Writes one line: the verdict, the reason if the verdict is not kRight, and for each oracle how
/// many entries were compared and how many digits agree.
std::ostream& operator<<(std::ostream& out, const CheckReport& report);

}  // namespace heed::autograd
