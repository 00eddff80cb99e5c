// Floating-point numbers of 16 bits, the elements of arrays in float16 and bfloat16. Their only
// operations are conversions from and to double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace heed::autograd {

/// A binary number of 16 bits in the formats of IEEE 754: a sign, an exponent, and a fraction of
/// kFraction bits. Each NaN becomes the same quiet NaN.
template <int kFraction>
class NarrowFloat {
 public:
  NarrowFloat() = default;
  /// Rounds to the nearest number, and to the one with an even last bit if two are equally near.
  explicit NarrowFloat(double x) {
    const double size = std::abs(x);
    int exponent = 0;
    std::frexp(size, &exponent);
    exponent = size > 0 ? std::max(exponent - 1, kLeast) : kLeast;
    // The significand as a whole number, rounded. The sum below adds its leading bit to the
    // exponent. If the rounding carries, the exponent becomes 1 larger.
    const double digits = std::nearbyint(std::ldexp(size, kFraction - exponent));
    std::uint32_t bits = kInfinity;
    if (std::isnan(x))
      bits = kInfinity | 1u << (kFraction - 1);
    else if (std::isfinite(x) && exponent <= 1 - kLeast)
      bits = std::min(kInfinity,
                      (std::uint32_t(exponent - kLeast) << kFraction) + std::uint32_t(digits));
    bits_ = std::uint16_t(bits | (std::signbit(x) && !std::isnan(x) ? 0x8000u : 0u));
  }
  /// The exact value.
  explicit operator double() const {
    const std::uint32_t size = bits_ & 0x7FFFu, fraction = size & ((1u << kFraction) - 1);
    const int exponent = int(size >> kFraction);
    const double sign = bits_ & 0x8000u ? -1 : 1;
    if (size > kInfinity) return std::nan("");
    if (size == kInfinity) return sign * HUGE_VAL;
    const std::uint32_t digits = fraction + (exponent > 0 ? 1u << kFraction : 0);
    return sign * std::ldexp(digits, std::max(exponent, 1) - 1 + kLeast - kFraction);
  }

 private:
  static constexpr int kLeast = 2 - (1 << (14 - kFraction));  // exponent of subnormal numbers
  static constexpr std::uint32_t kInfinity = 0x7FFFu >> kFraction << kFraction;

  std::uint16_t bits_ = 0;
};
using Float16 = NarrowFloat<10>;  ///< IEEE 754 binary16
using BFloat16 = NarrowFloat<7>;  ///< the upper 16 bits of a float

}  // namespace heed::autograd
