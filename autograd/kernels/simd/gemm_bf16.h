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

/// Returns the nearest bfloat16 of x, ties to even. NaN stays NaN. A number that rounds to more
/// than the largest bfloat16 becomes infinite.
inline float rounded_to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t up = bits + 0x7fffu + ((bits >> 16) & 1u);
  return std::bit_cast<float>((x == x ? up : bits | 0x400000u) & 0xffff0000u);
}

/// Computes C = A B + bias or C += A B with the elements of A and B rounded to bfloat16. The
/// product of two bfloat16 is exact in float32; the products are added in float32.
///
/// Throws ValueError unless the batch is 1 x 1 and the columns of C are adjacent (c_col is 1).
///
/// There are three implementations, called ways. "portable" rounds copies of A and B and calls
/// gemm(); it defines the result, and it is the only way unless the SIMD target is AVX-512. "amx"
/// multiplies tiles of 16 x 32 by tiles of 32 x 16. "avx512_bf16" multiplies pairs of adjacent k.
/// These two treat operands below 2^-126 as 0, and sums below 2^-126 become 0.
///
/// The order of the additions depends only on k and the way. For one way, the bits of an output
/// therefore do not depend on m, n or the number of threads.
void gemm_bf16(const Gemm<float>& g);

/// Returns the name of the way that gemm_bf16() uses now.
const char* bf16_way();
/// Returns the names of the ways that this machine supports, fastest first.
std::vector<std::string> bf16_ways();
/// Makes gemm_bf16() use this way whenever the SIMD target is AVX-512. An empty name selects the
/// fastest way. Throws ValueError, which lists the ways, for any other name. Do not call it while
/// another thread runs kernels.
void force_bf16_way(std::string_view name);

}  // namespace heed::autograd::kernels
