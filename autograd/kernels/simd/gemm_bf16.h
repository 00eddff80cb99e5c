// Matrix products of operands rounded to bfloat16 (float32 cut to 8 significant bits); their sums
// are float32.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/kernels/reference/gemm.h"

namespace heed::autograd::kernels {

/// The nearest bfloat16, ties to even. NaN stays NaN; what rounds beyond the largest becomes inf.
inline float rounded_to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t up = bits + 0x7fffu + ((bits >> 16) & 1u);
  return std::bit_cast<float>((x == x ? up : bits | 0x400000u) & 0xffff0000u);
}

/// C = A B (+ bias) or C += A B of one product with adjacent columns of C (batch 1 x 1, c_col 1;
/// ValueError otherwise): the entries of A and B are rounded to bfloat16, while they are packed;
/// their products are exact in float32, and added up in float32. An output's order of additions is
/// that of k alone: the same bits for any m, n and number of threads, by the same way.
///
/// Where the SIMD target is AVX-512, "amx" multiplies tiles of 16 x 32 by 32 x 16, "avx512_bf16"
/// pairs of k. Both take operands below 2^-126 for 0, and sums below it become 0. "portable" rounds
/// copies of A and B and runs gemm(): the definition.
void gemm_bf16(const Gemm<float>& g);

/// The way that gemm_bf16 goes.
const char* bf16_way();
/// Ways that this machine has, fastest first.
std::vector<std::string> bf16_ways();
/// This way from now on, wherever the SIMD target is AVX-512; "" is the best again. ValueError that
/// lists the ways for any other name. Not while another thread runs kernels.
void force_bf16_way(std::string_view name);

}  // namespace heed::autograd::kernels
