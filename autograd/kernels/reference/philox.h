// The counter-based random number generator Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel
// random numbers: as easy as 1, 2, 3", SC 2011), and dropout masks that use it. The mask of element
// i depends only on a key and on i. The forward, the backward and all threads therefore compute the
// same mask, so the mask is never stored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace heed::autograd::kernels {

/// A 128-bit counter or a block of 128 random bits. Word 0 contains the lowest bits.
using PhiloxBlock = std::array<uint32_t, 4>;

/// Returns the four random words that belong to a 64-bit key and a counter.
constexpr PhiloxBlock philox(uint64_t key, PhiloxBlock counter) {
  uint32_t key0 = uint32_t(key);
  uint32_t key1 = uint32_t(key >> 32);
  PhiloxBlock c = counter;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ key1,
         uint32_t(a)};
    // The keys are Weyl sequences. Their steps are 2^32 times (sqrt(5) - 1) / 2 and sqrt(3) - 1.
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return c;
}

/// The set of elements that dropout with probability p keeps. Let i be the row-major index of an
/// element in the whole tensor, w the word i % 4 of philox(key, counter i / 4), and u = w * 2^-32.
/// Element i is kept if u >= p. Requires 0 <= p <= 1. If p is 0, all elements are kept. If p is 1,
/// no element is kept.
class DropoutMask {
 public:
  constexpr DropoutMask(uint64_t key, double p) : key_(key) {
    const double scaled = p * 0x1p32;  // exact, so u >= p is equivalent to w >= threshold_
    threshold_ = uint64_t(scaled);
    if (double(threshold_) < scaled) ++threshold_;
  }

  /// Returns the key of the random numbers.
  constexpr uint64_t key() const { return key_; }
  /// Returns the smallest word w with which an element is kept: p * 2^32, rounded up.
  constexpr uint64_t threshold() const { return threshold_; }
  /// Returns true if element i is kept.
  constexpr bool keep(uint64_t i) const { return block(i / 4)[i % 4] >= threshold_; }

  /// Sets each out[k] to 1 if the mask keeps element first + k, and otherwise to 0. One call of
  /// philox() is enough for four elements.
  constexpr void keep(uint64_t first, std::span<uint8_t> out) const {
    std::size_t k = 0;
    while (k < out.size()) {
      const uint64_t i = first + k;
      const PhiloxBlock words = block(i / 4);
      for (std::size_t lane = i % 4; lane < 4 && k < out.size(); ++lane, ++k) {
        out[k] = words[lane] >= threshold_ ? 1 : 0;
      }
    }
  }

 private:
  constexpr PhiloxBlock block(uint64_t index) const {
    return philox(key_, {uint32_t(index), uint32_t(index >> 32), 0, 0});
  }

  uint64_t key_;
  uint64_t threshold_;  // in [0, 2^32], so it needs 33 bits
};

}  // namespace heed::autograd::kernels
