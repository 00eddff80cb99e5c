// Gradient checking of heed's functions. Derivatives are compared with two oracles that share no
// code with them: central differences, and dual numbers in the forward pass. Cotangents are random.
// A sum of the outputs would hide errors, because a softmax row sums to 1 for any input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/check/layouts.h"
#include "autograd/check/report.h"

namespace heed::autograd {

/// Options of gradcheck.
struct GradcheckOptions {
  int order = 1;                ///< 1: checks gradients. 2: checks gradients of gradients too
  std::uint64_t seed = 1;       ///< seed of the random cotangents and directions
  bool use_differences = true;  ///< compare with central differences
  bool use_dual = true;         ///< compare with dual numbers
  /// Entries that dual numbers compare one by one, spread evenly over the inputs. All other entries
  /// are checked together, in one random direction for each input.
  std::int64_t dual_entries = 128;
  /// Entries that differences compare one by one. The default is smaller than that of dual numbers,
  /// because each entry needs several evaluations of f.
  std::int64_t difference_entries = 32;
};

/// Checks the derivatives of f at float64 inputs of any shape. Entries of J^T v from the engine,
/// where v is random, are compared with two oracles:
/// - central differences. The tolerance is twice their own estimated error.
/// - dual numbers. The tolerance is 2^10 roundings of the entry's terms.
///
/// If an entry fails, the measured rounding error of the engine is added to the tolerance. No
/// tolerance depends on a size or a constant, so f and f times 2^k get the same verdict.
///
/// The verdict is also kWrong if zero cotangents give a nonzero gradient, if a second run gives
/// other bits, or if a value is not finite. Therefore f must be deterministic. An entry whose left
/// and right slopes differ is moved off its kink. The message of a failure names the worst entry
/// and the output in which it differs most. The verdict is kVacuous if no entry of a nonempty input
/// can be distinguished from rounding errors.
///
/// Throws DTypeError unless all inputs are float64. Throws ValueError if options.order is not 1 or
/// 2, or if the options check no entry.
CheckReport gradcheck(const DifferentiableFunction& f, Args inputs,
                      const GradcheckOptions& options = {});

/// Result of one sample of one check in one memory layout.
struct CheckResult {
  std::string_view check;  ///< name of the op or layer
  std::string sample;      ///< name of the sample
  CheckLayout layout;      ///< memory layout of the inputs
  int order;               ///< requested order: 1 or 2
  CheckReport report;      ///< findings; not meaningful if the sample was skipped
  SkipReason skipped;      ///< reason for skipping this layout; empty if it was checked
};
/// Runs the samples of a check in the given layouts. Returns one result for each pair of sample and
/// layout, whether it was run or skipped. A check without samples fails.
/// A pair fails if it throws an Error.
std::vector<CheckResult> run_check(const Check& check, const GradcheckOptions& options,
                                   std::span<const CheckLayout> layouts = kAllLayouts);

}  // namespace heed::autograd
