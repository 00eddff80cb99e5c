// Checks in float32, the type that trains: what kernels compute on a SIMD target against the
// references in float64, for the same inputs. The bound is measured, not chosen per op: the
// rounding of every operation to 24 bits, carried to the result by the noise of tracked numbers
// (base/tracked.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "autograd/base/tracked.h"
#include "autograd/graph/check_registry.h"

namespace heed::autograd {

/// The entries of a result in float64, and how far float32 may be from each.
struct Float32Bounds {
  std::vector<double> exact;
  /// 4 * 2^-24 * (root mean square, over several seeds, of the roundings in the entry's tangent) +
  /// 1 ulp of float32.
  std::vector<double> bound;
};
/// Runs f several times: it must compute the entries from Tracked::with_noise(input, seed).
Float32Bounds float32_bounds(const std::function<std::vector<Tracked>(std::uint64_t seed)>& f);

/// A function on one target: every entry of its value and of its gradients for a random cotangent;
/// at order 2 also of these by definitions, and of their gradients.
struct Float32Report {
  std::string target;        ///< as kernels::simd_targets() has it
  bool ok = true;            ///< every |float32 - float64| <= bound
  double worst = 0;          ///< the largest |float32 - float64| / bound
  std::int64_t entries = 0;  ///< that were compared
  std::string message = {};  ///< the first entry that fails, with both its values
};
/// One report for each of `targets`. The inputs, float64, are rounded to float32 first; f must take
/// either. Forces targets: not while another thread computes. ValueError for a target that is not
/// here.
std::vector<Float32Report> check_float32(const DifferentiableFunction& f, Args inputs,
                                         const std::vector<std::string>& targets, int order = 2);

}  // namespace heed::autograd
