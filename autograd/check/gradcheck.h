// Gradient checking. A derivative is compared with two oracles that share no code with it: central
// differences, and dual numbers run through the forward. Never with a sum of outputs: the cotangent
// is random, because a softmax row sums to 1 whatever its gradient does.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/check/layouts.h"

namespace heed::autograd {

enum class Oracle { kDifferences, kDual };
inline constexpr Oracle kAllOracles[] = {Oracle::kDifferences, Oracle::kDual};
/// As "dual numbers".
std::string_view oracle_name(Oracle oracle);

struct GradcheckOptions {
  int order = 1;  ///< 1: gradients. 2: gradients of gradients too.
  std::uint64_t seed = 1;
  bool use_differences = true;
  bool use_dual = true;
  /// Entries that each oracle is asked for one by one, spread evenly over the inputs; those left
  /// out are checked together, in a random direction.
  std::int64_t dual_entries = 128, difference_entries = 32;
};

/// One entry of a gradient, by the engine and by an oracle.
struct GradientEntry {
  std::ptrdiff_t input = -1;     ///< -1: all inputs in a random direction
  std::vector<std::int64_t> at;  ///< index in that input
  double engine = 0, oracle = 0;
  /// Sum of the absolute values of the terms that the entry adds, over all paths through f: what
  /// rounding is measured by. 0: the entry is exactly 0.
  double terms = 0;
  double tolerance = 0;   ///< of |engine - oracle|, from the oracle's own noise here
  double step = 0;        ///< of differences
  double error() const;   ///< |engine - oracle| / terms; 0 where equal, NaN where not finite
  double digits() const;  ///< -log10(error()), at most 16; NaN for what is not finite
};

/// What one oracle found at one order.
struct Agreement {
  std::int64_t checked = 0;  ///< entries asked for one by one
  GradientEntry worst;       ///< the one of the fewest digits
  GradientEntry together;    ///< all inputs in a random direction
};

struct GradcheckReport {
  bool ok = true;
  int order = 1;
  std::string message;           ///< why it failed: order, oracle, worst entry and both its values
  Agreement agreements[2][2];    ///< [order - 1][oracle]
  std::int64_t entries[2] = {};  ///< of all inputs, by order
  std::vector<std::string> moved;  ///< kinks: "input 0 at [2] from 0 to 0.0625"
  std::uint64_t seed = 0;

  const Agreement& agreement(int o, Oracle oracle) const { return agreements[o - 1][int(oracle)]; }
  double error(int o) const;  ///< largest error() of this order by either oracle; NaN is largest
};
std::ostream& operator<<(std::ostream& out, const GradcheckReport& report);

/// Checks the derivatives of f at float64 inputs: every entry of J^T v, v random, from the engine
/// against central differences (a tolerance of their own estimated error) and dual numbers (a
/// tolerance of 2^10 roundings of the entry's terms); entries without terms must be exactly 0. No
/// tolerance depends on a size or a constant: a function times 2^k is judged alike.
///
/// Zero cotangents must give zero, a second run the same bits; a value that is not finite fails.
/// Where the slopes from left and right differ, that input is moved. On failure the whole Jacobian
/// is built to name the worst entry. f must be deterministic.
/// DTypeError unless all inputs are float64; ValueError for options that check nothing.
GradcheckReport gradcheck(const DifferentiableFunction& f, Args inputs,
                          const GradcheckOptions& options = {});

/// One sample of one check in one layout at one order.
struct CheckResult {
  std::string_view check;
  std::string sample;
  CheckLayout layout;
  int order;
  GradcheckReport report;
  std::string skipped;  ///< the stated reason, if it was not run
};
/// Runs a check's samples in the given layouts: one result for each pair, run or skipped. A check
/// without samples fails.
std::vector<CheckResult> run_check(const Check& check, const GradcheckOptions& options,
                                   std::span<const CheckLayout> layouts = kAllLayouts);

}  // namespace heed::autograd
