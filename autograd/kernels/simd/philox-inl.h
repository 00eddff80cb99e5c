// philox.h's DropoutMask for a run of elements at once, for one SIMD target.
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

/// Vectors of counters that keep_run takes at a time: none waits for another's product.
constexpr int kCounters = 2;
/// What keep_run may write beyond the n elements that it is asked for.
constexpr std::size_t kKeepSlack = 4 * (kCounters * HWY_MAX_BYTES / 8 + 1);

/// memory has room for n + kKeepSlack; result[j] = mask.keep(first + j) as 0 or 1, in memory.
inline HWY_NOINLINE const std::uint8_t* keep_run(const DropoutMask& mask, std::uint64_t first,
                                                 std::int64_t n, std::uint8_t* memory) {
#if HWY_TARGET == HWY_SCALAR
  mask.keep(first, std::span(memory, std::size_t(n)));
  return memory;
#else
  // A lane of 64 bits is a block: each word of the counter in the low half of a lane of its own
  // vector. What the high halves hold is never read.
  const hn::ScalableTag<std::uint64_t> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Repartition<std::uint32_t, decltype(d)> d32;
  const hn::Rebind<std::uint32_t, decltype(d)> d_half;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = std::uint64_t(hn::Lanes(d));
  const auto m0 = hn::Set(d32, 0xD2511F53u), m1 = hn::Set(d32, 0xCD9E8D57u);
  const auto low = hn::Set(d, 0xFFFFFFFFu);
  const auto threshold = hn::Set(di, std::int64_t(mask.threshold()));
  // Byte w of a lane = whether word w is kept.
  const auto kept = [&](V word, std::uint64_t byte) HWY_ATTR {
    const auto dropped = hn::Lt(hn::BitCast(di, hn::And(word, low)), threshold);
    return hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Set(d, byte));
  };
  std::uint32_t keys[2][10] = {{std::uint32_t(mask.key())}, {std::uint32_t(mask.key() >> 32)}};
  for (int round = 1; round < 10; ++round) {
    keys[0][round] = keys[0][round - 1] + 0x9E3779B9u;
    keys[1][round] = keys[1][round - 1] + 0xBB67AE85u;
  }
  std::uint8_t* out = memory;
  const std::uint64_t end = first + std::uint64_t(n);
  for (std::uint64_t block = first / 4; 4 * block < end; block += kCounters * lanes) {
    V c0[kCounters], c1[kCounters], c2[kCounters], c3[kCounters];
    HWY_UNROLL(2)
    for (int i = 0; i < kCounters; ++i) {
      c0[i] = hn::Iota(d, block + std::uint64_t(i) * lanes);
      c1[i] = hn::ShiftRight<32>(c0[i]), c2[i] = c3[i] = hn::Zero(d);
    }
    for (int round = 0; round < 10; ++round) {
      const auto key0 = hn::Set(d, keys[0][round]), key1 = hn::Set(d, keys[1][round]);
      HWY_UNROLL(2)
      for (int i = 0; i < kCounters; ++i) {
        const auto a = hn::MulEven(hn::BitCast(d32, c0[i]), m0);
        const auto b = hn::MulEven(hn::BitCast(d32, c2[i]), m1);
        c0[i] = hn::Xor3(hn::ShiftRight<32>(b), c1[i], key0);
        c2[i] = hn::Xor3(hn::ShiftRight<32>(a), c3[i], key1);
        c1[i] = b, c3[i] = a;
      }
    }
    HWY_UNROLL(2)
    for (int i = 0; i < kCounters; ++i, out += 4 * lanes) {
      const V bytes = hn::Or(hn::Or(kept(c0[i], 1u), kept(c1[i], 1u << 8)),
                             hn::Or(kept(c2[i], 1u << 16), kept(c3[i], 1u << 24)));
      hn::StoreU(hn::BitCast(hn::Repartition<std::uint8_t, decltype(d_half)>(),
                             hn::TruncateTo(d_half, bytes)),
                 hn::Repartition<std::uint8_t, decltype(d_half)>(), out);
    }
  }
  return memory + first % 4;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
