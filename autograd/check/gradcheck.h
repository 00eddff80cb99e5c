// Gradient checking of heed's functions. Gradients are compared with two oracles that do not use
// the backward pass: central differences, and dual numbers in the forward pass. The cotangents are
// random, because a cotangent of ones can hide errors: a softmax row sums to 1 for any input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/check/layouts.h"
#include "autograd/check/report.h"

namespace heed::autograd {

/// Options of gradcheck().
struct GradcheckOptions {
  int order = 1;           ///< 1: checks gradients. 2: checks gradients of gradients too
  std::uint64_t seed = 1;  ///< seed of the random cotangents and directions
  /// Number of entries that are compared with dual numbers one by one, spread evenly over the
  /// inputs. An input with entries that are not in this sample is also checked in one random
  /// direction, along which all its entries move. If it is 0, dual numbers are not used.
  Index dual_entries = 128;
  /// Number of entries that are compared with central differences, which evaluate f several times
  /// for each entry. If it is 0, differences are not used.
  Index difference_entries = 32;
};

/// Checks the derivatives of f at float64 inputs of any shape. Entries of J^T v from the engine,
/// where J is the Jacobian of f and v is random, are compared with two oracles:
/// - central differences. The tolerance is twice their own estimated error plus the tolerance of
///   dual numbers.
/// - dual numbers. The tolerance is 2^10 * 2^-53 times the terms of the entry
///   (CheckedEntry::terms). The terms of different outputs, and the errors of their differences,
///   are added as the root of the sum of their squares, as in check_vjp().
///
/// If an entry fails, the measured rounding error of the engine is added to the tolerance. No
/// tolerance has an absolute part, so f and f times 2^k get the same verdict.
///
/// The verdict is also kWrong if zero cotangents give a nonzero gradient, if the result of a second
/// run differs by more than rounding explains, or if a value is not finite. Therefore f must be
/// deterministic. If the left and right slopes at an entry differ (a kink), the entry is moved and
/// the check is repeated. An entry that stays on a kink is counted (CheckReport::on_kink), and
/// compared only for the outputs that have no kink there. The message of a failure names the worst
/// entry and the output in which it differs most. The verdict is kVacuous if the inputs have
/// entries, but none of them can be distinguished from rounding errors.
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
  CheckReport report;      ///< findings; not meaningful if the sample was skipped
  std::string skipped;     ///< reason for skipping this layout; empty if it was checked
};
/// Runs the samples of a check in all layouts. Returns one result for each pair of sample and
/// layout, even if the layout was skipped. If a pair throws an Error, its verdict is kWrong. If the
/// check has no samples, returns one result whose verdict is not kRight.
std::vector<CheckResult> run_check(const Check& check, const GradcheckOptions& options);

}  // namespace heed::autograd
