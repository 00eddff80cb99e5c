// Selects the SIMD target, which is the set of vector instructions that kernels use.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

namespace heed::autograd::kernels {

/// Returns the name of the current SIMD target, for example "AVX3" (AVX-512), "AVX2" or "NEON". If
/// the reference kernels run, returns "SCALAR".
const char* simd_target();

/// Returns the names that force_simd_target() accepts, in lower case: first the targets that are
/// compiled in and that this machine supports, fastest first, and then "scalar".
std::vector<std::string> simd_targets();

/// Makes all kernels use the target with this name, in upper or lower case. "scalar" selects the
/// reference kernels, and an empty name selects the fastest target. For any other name, throws
/// ValueError that lists the accepted names. Do not call it while another thread runs kernels.
void force_simd_target(std::string_view name);

/// Forces a SIMD target during its lifetime.
class OnSimdTarget {
 public:
  /// Forces the target with this name, as force_simd_target().
  explicit OnSimdTarget(std::string_view name) { force_simd_target(name); }
  ~OnSimdTarget() { force_simd_target(before_); }
  OnSimdTarget(const OnSimdTarget&) = delete;

 private:
  std::string before_ = simd_target();
};

namespace detail {
inline std::atomic<bool> scalar_forced = false;
}
/// Returns true if the SIMD kernels run, and false if the reference kernels run.
inline bool simd_runs() { return !detail::scalar_forced.load(std::memory_order_relaxed); }

}  // namespace heed::autograd::kernels
