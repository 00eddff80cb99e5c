// Compiler and SIMD target, which decide a run's bits besides its configuration.
#pragma once

#include <string>

#include "autograd/kernels/simd/gemm_bf16.h"
#include "autograd/kernels/simd/simd.h"
#include "nn/train/config.h"

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

/// Returns the same for a run, which may multiply bfloat16: "AVX3, bfloat16 by amx".
inline std::string simd_target_text(const RunConfig& config) {
  if (config.model.matmul == Precision::kFloat32) return simd_target_text();
  return simd_target_text() + ", " + enum_name(config.model.matmul) + " by " +
         autograd::kernels::bf16_way();
}

}  // namespace heed::nn
