// Compares Philox4x32-10 with the known answers of the library Random123, and tests DropoutMask.
#include "autograd/kernels/reference/philox.h"

#include "autograd/kernels/simd/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/simd_targets.h"

namespace {

using heed::autograd::kernels::DropoutMask;
using heed::autograd::kernels::philox;
using heed::autograd::kernels::PhiloxBlock;

TEST_CASE("philox4x32-10 gives the known answers of Random123") {
  CHECK(philox(0, {0, 0, 0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(~uint64_t{0}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  static_assert(philox(0, {0, 0, 0, 0})[0] == 0x6627e8d5);
}

TEST_CASE("dropout keeps element i if and only if its word is at least p * 2^32") {
  const uint64_t key = 0x0123456789abcdef;
  const PhiloxBlock high = philox(key, {7, 5, 0, 0});  // block 5 * 2^32 + 7 uses both counter words
  const uint64_t first = 4 * ((uint64_t{5} << 32) + 7);
  for (std::size_t lane = 0; lane < 4; ++lane) {
    const double u = high[lane] * 0x1p-32;
    CHECK(DropoutMask(key, u).keep(first + lane));
    CHECK_FALSE(DropoutMask(key, std::nextafter(u, 1.0)).keep(first + lane));
  }
}

TEST_CASE("dropout with p = 0 keeps all and with p = 1 none") {
  for (uint64_t i = 0; i < 4096; ++i) {
    REQUIRE(DropoutMask(i, 0.0).keep(i));
    REQUIRE_FALSE(DropoutMask(i, 1.0).keep(i));
  }
}

TEST_CASE("the mask of a row equals the masks of its elements, for any first and last element") {
  const DropoutMask mask(42, 0.3);
  for (const uint64_t base : {uint64_t{0}, (uint64_t{1} << 34) - 6}) {
    for (uint64_t first = base; first < base + 8; ++first) {
      for (std::size_t n = 0; n <= 11; ++n) {
        std::vector<uint8_t> row(n + 1, 7);
        mask.keep(first, std::span(row).first(n));
        for (std::size_t k = 0; k < n; ++k) REQUIRE(row[k] == (mask.keep(first + k) ? 1 : 0));
        REQUIRE(row[n] == 7);
      }
    }
  }
}

TEST_CASE("dropout keeps the same elements on every SIMD target, also at the threshold") {
  const uint64_t key = 0x89abcdef01234567;
  heed::autograd::testing::for_each_simd_target([&] {
    for (const uint64_t base : {uint64_t{0}, (uint64_t{1} << 34) - 6, (uint64_t{5} << 34) + 123}) {
      // The probabilities include u, which is the largest probability that keeps element base, and
      // the next larger number.
      const double u =
          philox(key, {uint32_t(base / 4), uint32_t(base / 4 >> 32), 0, 0})[0] * 0x1p-32;
      for (const double p : {u, std::nextafter(u, 1.0), 0.1, 0.9, 1.0, 1e-300})
        for (const std::size_t n : {0u, 1u, 2u, 7u, 31u, 32u, 33u, 63u, 64u, 65u, 256u, 700u})
          for (uint64_t first = base; first < base + 5; ++first) {
            const DropoutMask mask(key, p);
            std::vector<uint8_t> want(n), got(n + 1, 7);
            mask.keep(first, want);
            heed::autograd::kernels::simd::keep(mask, first, std::span(got).first(n));
            REQUIRE(got[n] == 7);
            got.pop_back();
            CAPTURE(base, p, n, first);
            REQUIRE(got == want);
          }
    }
  });
}

}  // namespace
