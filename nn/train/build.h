// What besides a run's configuration decides its bits.
#pragma once

#include <string>

#include "autograd/kernels/simd/simd.h"

namespace heed::nn {

/// The compiler that built this binary: "GCC 12.2.0".
inline std::string compiler_text() {
#ifdef __clang__
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

/// The vector instructions that its kernels chose on this machine: "AVX3_ZEN4".
inline std::string simd_target_text() { return autograd::kernels::simd_target(); }

}  // namespace heed::nn
