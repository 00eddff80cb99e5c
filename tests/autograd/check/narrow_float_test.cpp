// Tests the conversion of numbers of 16 bits (autograd/check/narrow_float.h).
#include "autograd/check/narrow_float.h"

#include <bit>
#include <limits>

#include "tests/support/catch.h"

namespace heed::autograd {
namespace {

template <class Narrow>
Narrow from_bits(int bits) {
  return std::bit_cast<Narrow>(std::uint16_t(bits));
}

template <class Narrow>
int bits_of(Narrow x) {
  return std::bit_cast<std::uint16_t>(x);
}

TEMPLATE_TEST_CASE("numbers of 16 bits are converted exactly, and rounded to nearest even", "",
                   Float16, BFloat16) {
  using T = TestType;
  int wrong = 0;
  for (int bits = 0; bits < 0x10000; ++bits) {
    const double x(from_bits<T>(bits));
    if (std::isnan(x)) {
      wrong += !std::isnan(double(T(x)));
      continue;
    }
    wrong += bits_of(T(x)) != bits;
    const double next(from_bits<T>(bits + 1));  // farther from 0
    if (!std::isfinite(next) || (bits + 1) % 0x8000 == 0) continue;
    const double middle = x + (next - x) / 2;
    wrong += bits_of(T(middle)) != bits + bits % 2;
    wrong += bits_of(T(std::nextafter(middle, x))) != bits;
    wrong += bits_of(T(std::nextafter(middle, next))) != bits + 1;
  }
  CHECK(wrong == 0);
  CHECK(bits_of(T(-0.0)) == 0x8000);
  CHECK(double(T(HUGE_VAL)) == HUGE_VAL);
  CHECK(double(T(-std::numeric_limits<double>::max())) == -HUGE_VAL);
  CHECK(double(T(std::numeric_limits<double>::denorm_min())) == 0);
}

TEST_CASE("numbers of 16 bits have the values of their formats") {
  CHECK(double(from_bits<Float16>(0x3C01)) == 1 + 0x1p-10);
  CHECK(double(from_bits<Float16>(0x7BFF)) == 65504);
  CHECK(double(from_bits<Float16>(0x0001)) == 0x1p-24);
  CHECK(bits_of(Float16(65519.99)) == 0x7BFF);
  CHECK(bits_of(Float16(65520)) == 0x7C00);
  CHECK(double(from_bits<BFloat16>(0xC049)) == -3.140625);
  CHECK(double(from_bits<BFloat16>(0x0001)) == 0x1p-133);
  CHECK(bits_of(BFloat16(std::numeric_limits<float>::max())) == 0x7F80);
}

}  // namespace
}  // namespace heed::autograd
