// Compiler and SIMD target of this binary. Together with the configuration, they determine the bits
// of a run.
#pragma once

#include <string>

#include "autograd/kernels/simd/simd.h"
#include "nn/lab/names.h"

namespace heed::lab {

/// Returns the compiler that built this binary, such as "GCC 12.2.0".
inline std::string compiler_text() {
#ifdef __clang__
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

/// Returns the SIMD target that the kernels chose on this machine, such as "AVX3_ZEN4".
inline std::string simd_target_text() { return autograd::kernels::simd_target(); }

}  // namespace heed::lab
