// Matrix products of float32 matrices whose elements are first rounded to bfloat16, which has 8
// significant bits. The sums are float32.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/kernels/reference/gemm.h"

namespace heed::autograd::kernels {

/// Returns the bfloat16 that is nearest to x (ties to even). NaN stays NaN. If the rounded number
/// would be above the largest finite bfloat16, the result is infinite.
inline float rounded_to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t up = bits + 0x7fffu + ((bits >> 16) & 1u);
  return std::bit_cast<float>((x == x ? up : bits | 0x400000u) & 0xffff0000u);
}

/// Computes C = A B + bias or C += A B after rounding the elements of A and B to bfloat16. The
/// product of two bfloat16 is exact in float32; the products are added in float32.
///
/// Throws ValueError unless the batch is 1 x 1 and the columns of C are adjacent (c_col is 1).
///
/// There are three implementations, called ways. "portable" rounds copies of A and B and calls
/// gemm(); it defines the result, and it is the only way unless the SIMD target is AVX-512. "amx"
/// multiplies tiles of 16 x 32 by tiles of 32 x 16. "avx512_bf16" multiplies two neighboring values
/// along k at a time. These two implementations treat operands whose absolute value is below 2^-126
/// as 0, and replace sums below 2^-126 by 0.
///
/// The order of the additions depends only on k and on the implementation. If the implementation is
/// the same, the bits of an output therefore do not depend on m, n or the number of threads.
void gemm_bf16(const Gemm<float>& g);

/// Returns the name of the implementation that gemm_bf16() uses now, for example "amx".
const char* bf16_way();
/// Returns the names of the implementations of gemm_bf16() that this machine supports, fastest
/// first.
std::vector<std::string> bf16_ways();
/// Makes gemm_bf16() use the implementation with this name while the SIMD target is AVX-512. An
/// empty name selects the fastest one. If this machine does not support `name`, throws ValueError
/// that lists the supported names. Do not call it while another thread runs kernels.
void force_bf16_way(std::string_view name);

}  // namespace heed::autograd::kernels
