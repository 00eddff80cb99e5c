// Which vector instructions the kernels run on.
#pragma once

#include <atomic>
#include <string>
#include <string_view>
#include <vector>

namespace heed::autograd::kernels {

/// The SIMD target that kernels run on: "AVX3", "AVX2", "NEON", ...; "SCALAR" where the references
/// do.
const char* simd_target();

/// Names for force_simd_target: the targets that are compiled in and that this machine can run,
/// best first, in lower case; then "scalar".
std::vector<std::string> simd_targets();

/// Kernels run on this target from now on, "scalar" on their references; "" is the best again.
/// Not while another thread runs kernels. ValueError that lists the targets for any other name.
void force_simd_target(std::string_view name);

namespace detail {
inline std::atomic<bool> scalar_forced = false;
}
/// True if simd:: kernels run, not their references.
inline bool simd_runs() { return !detail::scalar_forced.load(std::memory_order_relaxed); }

}  // namespace heed::autograd::kernels
