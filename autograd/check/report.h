// The result of a gradient check, of gradcheck and of check_vjp.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace heed::autograd {

/// What a gradient is compared with: central differences, or dual numbers run through the forward,
/// which only heed's own ops have.
enum class Oracle { kDifferences, kDual };
inline constexpr Oracle kAllOracles[] = {Oracle::kDifferences, Oracle::kDual};
/// As "dual numbers".
std::string_view oracle_name(Oracle oracle);

enum class Verdict {
  kRight,
  kWrong,
  kVacuous,  ///< a gradient that is plainly another would have passed: nothing is proven
};

/// An entry of a gradient, or its product with a random direction, by the backward pass and by an
/// oracle.
struct CheckedEntry {
  static constexpr std::int64_t kDirection = -1;
  std::size_t input = 0;
  std::int64_t at = kDirection;          ///< row-major place in that input, or kDirection
  std::vector<std::int64_t> index = {};  ///< the same as an index; empty for a direction
  double given = 0;                      ///< by the backward pass
  double expected = 0;                   ///< by the oracle
  /// Sum of the absolute values of the terms that the entry adds, over the outputs, and over all
  /// paths through the function if dual numbers count them: what rounding is measured by.
  double terms = 0;
  double tolerance = 0;   ///< of |given - expected|, from the oracle's own noise at this entry
  double step = 0;        ///< of differences
  double error() const;   ///< |given - expected| / terms; 0 where equal, NaN where not finite
  double digits() const;  ///< -log10(error()), from 0 to 16; NaN for what is not finite
  /// "input 0 at [3]"
  std::string name() const;
};

/// What one oracle found at one order.
struct OracleReport {
  std::int64_t checked = 0;  ///< entries that the oracle could tell from rounding, one by one
  CheckedEntry worst;        ///< of these the one of the fewest digits, or one that fails
  CheckedEntry direction;    ///< a random direction through an input of more entries
};

/// An entry of x that was on a kink, where there is no derivative, and where it was checked.
struct MovedEntry {
  CheckedEntry entry;
  double from = 0, to = 0;
  /// "input 0 at [2] from 0 to 0.0625"
  std::string text() const;
};

struct CheckReport {
  Verdict verdict = Verdict::kRight;
  std::string message;  ///< why it is not right: entry and both values, or what else is wrong
  int order = 1;        ///< the highest that was checked: 1 or 2
  OracleReport oracles[2][2];            ///< [order - 1][oracle]
  std::int64_t entries[2] = {};          ///< of all inputs, by order
  std::int64_t mutants = 0, killed = 0;  ///< wrong versions of the given gradients (check_vjp)
  std::int64_t equivalent = 0;           ///< mutants that do not differ, e.g. a zero negated
  std::vector<MovedEntry> moved;         ///< entries that were on a kink
  std::uint64_t seed = 0;

  bool ok() const { return verdict == Verdict::kRight; }
  /// Sets another verdict and why, unless there is one already.
  void refuse(Verdict why_not, const std::string& why);
  const OracleReport& by(int o, Oracle oracle) const { return oracles[o - 1][int(oracle)]; }
  /// The worst entry by differences at order 1, and how many they checked: all of check_vjp.
  const CheckedEntry& worst() const { return by(1, Oracle::kDifferences).worst; }
  std::int64_t checked() const { return by(1, Oracle::kDifferences).checked; }
  /// The digits of worst(); 0 if differences could tell no entry from rounding.
  double digits() const { return checked() > 0 ? worst().digits() : 0; }
  double error(int o) const;  ///< largest error() of this order by either oracle; NaN is largest
};
/// Verdict and reason, or the digits that agree by each oracle, in one line.
std::ostream& operator<<(std::ostream& out, const CheckReport& report);

}  // namespace heed::autograd
