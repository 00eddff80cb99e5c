// Compiler and SIMD target of this binary. Together with the configuration, they determine the bits
// of a run.
#pragma once

#include <string>

#include "autograd/kernels/simd/gemm_bf16.h"
#include "autograd/kernels/simd/simd.h"
#include "nn/train/config.h"

namespace heed::nn {

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

/// Returns the SIMD target and, if `config.model.matmul` is not float32, the instructions that
/// multiply bfloat16 numbers, such as "AVX3, bfloat16 by amx".
inline std::string simd_target_text(const RunConfig& config) {
  if (config.model.matmul == Precision::kFloat32) return simd_target_text();
  return simd_target_text() + ", " + enum_name(config.model.matmul) + " by " +
         autograd::kernels::bf16_way();
}

}  // namespace heed::nn
