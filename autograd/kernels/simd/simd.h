// Which vector instructions the kernels run on.
#pragma once

namespace heed::autograd::kernels {

/// The SIMD target that run-time dispatch chose on this machine: "AVX3_ZEN4", "AVX2", "NEON", ...
const char* simd_target();

}  // namespace heed::autograd::kernels
