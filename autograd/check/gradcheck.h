// Gradient checking. A derivative is compared with two oracles that share no code with it: central
// differences, and dual numbers run through the forward. Never with a sum of outputs: the cotangent
// is random, because a softmax row sums to 1 whatever its gradient does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/check/layouts.h"
#include "autograd/check/report.h"

namespace heed::autograd {

struct GradcheckOptions {
  int order = 1;  ///< 1: gradients. 2: gradients of gradients too.
  std::uint64_t seed = 1;
  bool use_differences = true;
  bool use_dual = true;
  /// Entries that each oracle compares one by one, spread evenly over the inputs. Those left out
  /// are checked together, in a random direction of each input.
  std::int64_t dual_entries = 128, difference_entries = 32;
};

/// Checks the derivatives of f at float64 inputs: entries of J^T v, v random, from the engine
/// against central differences (a tolerance of their own estimated error) and dual numbers (a
/// tolerance of 2^10 roundings of the entry's terms, and of what rounding inside the engine moves).
/// No tolerance depends on a size or a constant: a function times 2^k is judged alike.
///
/// Zero cotangents must give zero, a second run the same bits; a value that is not finite fails.
/// Where the slopes from left and right differ, that entry is moved. A failure names the worst
/// entry and the output in which it differs most. f must be deterministic. DTypeError unless all
/// inputs are float64; ValueError for options that check nothing.
CheckReport gradcheck(const DifferentiableFunction& f, Args inputs,
                      const GradcheckOptions& options = {});

/// One sample of one check in one layout at one order.
struct CheckResult {
  std::string_view check;
  std::string sample;
  CheckLayout layout;
  int order;
  CheckReport report;
  SkipReason skipped;  ///< why it was not run, if it was not
};
/// Runs a check's samples in the given layouts: one result for each pair, run or skipped. A check
/// without samples fails, and so does a pair in which an Error is thrown.
std::vector<CheckResult> run_check(const Check& check, const GradcheckOptions& options,
                                   std::span<const CheckLayout> layouts = kAllLayouts);

}  // namespace heed::autograd
