// Selection of the SIMD target, that is, of the vector instructions that kernels use.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

namespace heed::autograd::kernels {

/// Returns the name of the current SIMD target, for example "AVX3" (AVX-512), "AVX2" or "NEON". It
/// is "SCALAR" if the reference kernels run.
const char* simd_target();

/// Returns the names that force_simd_target() accepts, in lower case: first the targets that are
/// compiled in and that this machine supports, fastest first, and then "scalar".
std::vector<std::string> simd_targets();

/// Makes all kernels use this target; upper and lower case are equal. "scalar" selects the
/// reference kernels, and an empty name the fastest target. Throws ValueError, which lists the
/// targets, for any other name. Do not call it while another thread runs kernels.
void force_simd_target(std::string_view name);

namespace detail {
inline std::atomic<bool> scalar_forced = false;
}
/// Returns true if SIMD kernels run, and false if their references run.
inline bool simd_runs() { return !detail::scalar_forced.load(std::memory_order_relaxed); }

}  // namespace heed::autograd::kernels
