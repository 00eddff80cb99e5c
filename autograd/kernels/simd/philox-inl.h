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

/// What keep_run may write beyond the n elements that it is asked for.
constexpr std::size_t kKeepSlack = 4 * (HWY_MAX_BYTES / 8 + 1);

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
  const std::size_t lanes = hn::Lanes(d);
  const auto m0 = hn::Set(d32, 0xD2511F53u), m1 = hn::Set(d32, 0xCD9E8D57u);
  const auto low = hn::Set(d, 0xFFFFFFFFu);
  const auto threshold = hn::Set(di, std::int64_t(mask.threshold()));
  HWY_ALIGN std::uint64_t bytes[HWY_MAX_BYTES / 8];
  std::uint8_t* out = memory;
  const std::uint64_t end = first + std::uint64_t(n);
  for (std::uint64_t block = first / 4; 4 * block < end; block += lanes) {
    auto c0 = hn::Iota(d, block);
    auto c1 = hn::ShiftRight<32>(c0), c2 = hn::Zero(d), c3 = hn::Zero(d);
    auto key0 = std::uint32_t(mask.key()), key1 = std::uint32_t(mask.key() >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto a = hn::MulEven(hn::BitCast(d32, c0), m0);
      const auto b = hn::MulEven(hn::BitCast(d32, c2), m1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), c1), hn::Set(d, key0));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), c3), hn::Set(d, key1));
      c1 = b, c3 = a;
      key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    // Byte w of a lane = whether word w is kept.
    const auto kept = [&](auto word, std::uint64_t byte) HWY_ATTR {
      const auto dropped = hn::Lt(hn::BitCast(di, hn::And(word, low)), threshold);
      return hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Set(d, byte));
    };
    hn::Store(hn::Or(hn::Or(kept(c0, 1u), kept(c1, 1u << 8)),
                     hn::Or(kept(c2, 1u << 16), kept(c3, 1u << 24))),
              d, bytes);
    for (std::size_t l = 0; l < lanes; ++l, out += 4)
      for (std::size_t w = 0; w < 4; ++w) out[w] = std::uint8_t(bytes[l] >> (8 * w));
  }
  return memory + first % 4;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace heed::autograd::kernels
HWY_AFTER_NAMESPACE();

#endif
