// Gradient checking. A derivative is compared with two oracles that share no code with it: central
// differences, and dual numbers run through the forward. Never with a sum of outputs: the cotangent
// is random, because a softmax row sums to 1 whatever its gradient does.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "autograd/check/layouts.h"

namespace heed::autograd {

enum class Oracle {
  kDifferences,  ///< four-point central differences at two steps, extrapolated: to about 1e-10
  kDual,         ///< dual numbers, no step size: to about 1e-14
};

struct GradcheckOptions {
  int order = 1;  ///< 1: gradients. 2: gradients of gradients too.
  /// |analytic - oracle| <= tolerance * (1 + |oracle|), for every random projection; a non-finite
  /// value fails.
  double difference_tolerance = 1e-6;
  double dual_tolerance = 1e-10;
  int directions = 2;  ///< random tangent and cotangent pairs
  std::uint64_t seed = 1;
  bool use_differences = true;
  bool use_dual = true;
};

struct GradcheckReport {
  bool ok = true;
  double error = 0;  ///< largest |analytic - oracle| / (1 + |oracle|), of all orders checked
  double order_error[2] = {0, 0};  ///< the same of order 1 and of order 2 alone; NaN is largest
  std::string message;  ///< why it failed: order, oracle, worst entry and both its values
  int order = 1;
};
std::ostream& operator<<(std::ostream& out, const GradcheckReport& report);

/// Checks the derivatives of f at float64 inputs. <v, J u> from each oracle against <J^T v, u> from
/// the engine, u and v random; zero cotangents must give zero, a second run the same bits. On
/// failure the whole Jacobian is built to name the worst entry. f must be deterministic.
/// DTypeError unless all inputs are float64.
GradcheckReport gradcheck(const DifferentiableFunction& f, Args inputs,
                          const GradcheckOptions& options = {});

/// One sample of one check in one layout at one order.
struct CheckResult {
  std::string_view check;
  std::string sample;
  CheckLayout layout;
  int order;
  GradcheckReport report;
  SkipReason skipped;  ///< why it was not run, if it was not
};
/// Runs a check's samples in the given layouts: one result for each pair, run or skipped. A check
/// without samples fails.
std::vector<CheckResult> run_check(const Check& check, const GradcheckOptions& options,
                                   std::span<const CheckLayout> layouts = kAllLayouts);

}  // namespace heed::autograd
