// Checks in float32, the dtype in which models are trained. The results of the kernels on a SIMD
// target are compared with those of the float64 reference kernels for the same inputs. The bound on
// the error is computed, not chosen for each op: tracked numbers (base/tracked.h) sum how much the
// rounding of each input to the 24 significant bits of float32 can change a result.
#pragma once

#include <string>
#include <vector>

#include "autograd/base/tracked.h"
#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// The entries of a result in float64, and the largest error that float32 may have in each.
struct Float32Bounds {
  std::vector<double> exact;  ///< value of each entry, computed in float64
  /// Bound on the error of each entry: 4 * 2^-24 * (terms + |entry|), at least the smallest normal
  /// float. terms is the sum of the absolute values of the entry's changes if each input changes by
  /// its own size, along all paths (Tracked::terms).
  std::vector<double> bound;
};
/// Returns Tracked(v, v): an input of a function whose result float32_bounds() bounds.
inline Tracked rounded_input(double v) { return {v, v}; }
/// Returns the bounds of entries that are computed from inputs made by rounded_input().
Float32Bounds float32_bounds(const std::vector<Tracked>& entries);

/// Result of check_float32() on one SIMD target.
struct Float32Report {
  std::string target;        ///< name of the target, one of kernels::simd_targets()
  bool ok = true;            ///< true if every |float32 - float64| <= bound
  double worst = 0;          ///< the largest |float32 - float64| / bound
  Index entries = 0;         ///< number of compared entries
  std::string message = {};  ///< the first entry that fails, with both values; "" if none fails
};
/// Compares f in float32 on each of `targets` with f in float64. Returns one report for each
/// target.
///
/// Compares all entries of the value of f, and of the gradients for a random cotangent. If `order`
/// is 2, also compares the gradients that are computed from the definitions of fused ops, and the
/// gradients of these gradients. The inputs must be float64; their values are first rounded to
/// float32. f must accept inputs of float32, float64 and tracked64. check_float32 changes the SIMD
/// target of the process, so no other thread may compute at the same time. Throws ValueError if a
/// target is not available on this machine, or if the numbers of entries in float32 and in float64
/// differ.
std::vector<Float32Report> check_float32(const DifferentiableFunction& f, Args inputs,
                                         const std::vector<std::string>& targets, int order = 2);

}  // namespace heed::autograd
