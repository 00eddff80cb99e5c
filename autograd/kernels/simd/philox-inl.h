// SIMD version of DropoutMask (reference/philox.h) for a range of elements, compiled for one SIMD
// target.
#if defined(HEED_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_PHILOX_INL_H_
#undef HEED_PHILOX_INL_H_
#else
#define HEED_PHILOX_INL_H_
#endif

#include <cstdint>
#include <span>

#include "autograd/kernels/reference/philox.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::autograd::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Number of bytes that keep_run() may write in addition to the n requested ones.
constexpr std::size_t kKeepSlack = 4 * (2 * HWY_MAX_BYTES / 8 + 1);

#if HWY_TARGET != HWY_SCALAR
// Vectors with 64-bit lanes, in which one lane computes one block of Philox. The four words of a
// block are in four vectors, each in the low half of the lane. The values of the high halves are
// not used.
using Blocks = hn::ScalableTag<std::uint64_t>;

// Computes kN vectors of blocks, and writes four bytes per block, one for each element: 1 if the
// mask keeps the element, and otherwise 0. `block` contains the block indices of the first vector.
// If kN > 1, the multiplications of one vector run while those of another vector wait for their
// results.
template <int kN>
HWY_INLINE void keep_blocks(const DropoutMask& mask, hn::Vec<Blocks> block, std::uint8_t* out) {
  const Blocks d;
  const hn::Repartition<std::uint32_t, Blocks> d32;
  const hn::Rebind<std::uint32_t, Blocks> d_half;
  const hn::Repartition<std::uint8_t, decltype(d_half)> d8;
  const auto m0 = hn::Set(d32, 0xD2511F53u), m1 = hn::Set(d32, 0xCD9E8D57u);
  hn::Vec<Blocks> c0[kN], c1[kN], c2[kN], c3[kN];
  HWY_UNROLL(2)
  for (int i = 0; i < kN; ++i) {
    c0[i] = block;
    c1[i] = hn::ShiftRight<32>(block), c2[i] = c3[i] = hn::Zero(d);
    block = hn::Add(block, hn::Set(d, std::uint64_t(hn::Lanes(d))));
  }
  auto key0 = std::uint32_t(mask.key()), key1 = std::uint32_t(mask.key() >> 32);
  HWY_UNROLL(10)
  for (int round = 0; round < 10; ++round, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
    HWY_UNROLL(2)
    for (int i = 0; i < kN; ++i) {
      const auto a = hn::MulEven(hn::BitCast(d32, c0[i]), m0);
      const auto b = hn::MulEven(hn::BitCast(d32, c2[i]), m1);
      c0[i] = hn::Xor3(hn::ShiftRight<32>(b), c1[i], hn::Set(d, key0));
      c2[i] = hn::Xor3(hn::ShiftRight<32>(a), c3[i], hn::Set(d, key1));
      c1[i] = b, c3[i] = a;
    }
  }
  // In each lane, the result of kept(word, byte) is `byte` if the word is above the largest word
  // that is dropped, and otherwise 0.
  const auto largest = hn::Set(d32, std::uint32_t(mask.threshold() - 1));
  const auto kept = [&](hn::Vec<Blocks> word, std::uint64_t byte) HWY_ATTR {
    const auto above = hn::Gt(hn::BitCast(d32, word), largest);
    return hn::BitCast(d, hn::IfThenElseZero(above, hn::BitCast(d32, hn::Set(d, byte))));
  };
  HWY_UNROLL(2)
  for (int i = 0; i < kN; ++i) {
    const auto bytes = hn::Or(hn::Or(kept(c0[i], 1u), kept(c1[i], 1u << 8)),
                              hn::Or(kept(c2[i], 1u << 16), kept(c3[i], 1u << 24)));
    hn::StoreU(hn::BitCast(d8, hn::TruncateTo(d_half, bytes)), d8,
               out + std::size_t(i) * 4 * hn::Lanes(d));
  }
}
#endif

/// Writes n flags to `memory`. Flag j is 1 if the mask keeps element first + j, and otherwise 0.
/// Returns a pointer to flag 0, which may be after the start of `memory`. `memory` must have room
/// for n + kKeepSlack bytes. The dropout probability of the mask must be greater than 0.
inline HWY_NOINLINE const std::uint8_t* keep_run(const DropoutMask& mask, std::uint64_t first,
                                                 std::int64_t n, std::uint8_t* memory) {
#if HWY_TARGET == HWY_SCALAR
  mask.keep(first, std::span(memory, std::size_t(n)));
  return memory;
#else
  const Blocks d;
  const auto step = std::int64_t(4 * hn::Lanes(d));
  auto block = hn::Iota(d, first / 4);
  const std::int64_t end = std::int64_t(first % 4) + n;
  std::int64_t at = 0;
  for (; at + step < end; at += 2 * step) {
    keep_blocks<2>(mask, block, memory + at);
    block = hn::Add(block, hn::Set(d, std::uint64_t(2 * hn::Lanes(d))));
  }
  if (at < end) keep_blocks<1>(mask, block, memory + at);
  return memory + first % 4;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
