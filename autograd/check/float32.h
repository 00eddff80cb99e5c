// Checks in float32, the dtype in which models are trained. The results of the kernels on a SIMD
// target are compared with those of the float64 reference kernels for the same inputs. The bound on
// the error is computed, not chosen for each op: tracked numbers (base/tracked.h) sum the effects
// of rounding every operation to the 24 significant bits of float32.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autograd/base/tracked.h"
#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// The entries of a result in float64, and the largest error that float32 may have in each.
struct Float32Bounds {
  std::vector<double> exact;  ///< value of each entry, computed in float64
  /// Bound on the error of each entry: 4 * 2^-24 * r + 1 ulp of float32. r is the root mean square,
  /// over several seeds, of the rounding noise in the entry's tangent (Tracked::seed).
  std::vector<double> bound;
};
/// Computes the bounds of the entries that f returns. f is called with several seeds and must
/// compute the entries from inputs made by Tracked::with_noise(input, seed).
Float32Bounds float32_bounds(const std::function<std::vector<Tracked>(std::uint64_t seed)>& f);

/// Result of check_float32() on one SIMD target.
struct Float32Report {
  std::string target;        ///< name of the target, one of kernels::simd_targets()
  bool ok = true;            ///< true if every |float32 - float64| <= bound
  double worst = 0;          ///< the largest |float32 - float64| / bound
  std::int64_t entries = 0;  ///< number of compared entries
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
