// Tests of CRC-32C: published test vectors, and detection of every flipped bit.
#include "nn/io/crc32c.h"

#include "tests/support/catch.h"

namespace {

using heed::nn::Crc32c;

std::uint32_t crc(const std::vector<std::uint8_t>& bytes) {
  Crc32c sum;
  sum.add(std::as_bytes(std::span(bytes)));
  return sum.value();
}

TEST_CASE("CRC-32C equals the values of RFC 3720 B.4 and of the check string") {
  std::vector<std::uint8_t> rising(32), falling(32);
  for (std::uint8_t i = 0; i < 32; ++i) rising[i] = i, falling[i] = std::uint8_t(31 - i);
  CHECK(crc(std::vector<std::uint8_t>(32, 0)) == 0x8a9136aau);
  CHECK(crc(std::vector<std::uint8_t>(32, 0xff)) == 0x62a8ab43u);
  CHECK(crc(rising) == 0x46dd794eu);
  CHECK(crc(falling) == 0x113fdb5cu);
  CHECK(crc({0x01, 0xc0, 0, 0, 0, 0, 0,    0, 0,    0, 0, 0,    0, 0, 0, 0,
             0x14, 0,    0, 0, 0, 0, 0x04, 0, 0,    0, 0, 0x14, 0, 0, 0, 0x18,
             0x28, 0,    0, 0, 0, 0, 0,    0, 0x02, 0, 0, 0,    0, 0, 0, 0}) == 0xd9963a56u);
  const std::string digits = "123456789";
  CHECK(crc({digits.begin(), digits.end()}) == 0xe3069283u);
  CHECK(crc({}) == 0);
}

TEST_CASE("a checksum depends on every bit and not on how the bytes are split") {
  std::mt19937 random(1);
  std::vector<std::uint8_t> bytes(101);
  for (auto& b : bytes) b = std::uint8_t(random());
  const std::uint32_t whole = crc(bytes);
  Crc32c by_tables;
  by_tables.add_by_tables(std::as_bytes(std::span(bytes)));
  CHECK(by_tables.value() == whole);
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    Crc32c sum;
    sum.add(std::as_bytes(std::span(bytes).first(split)));
    sum.add(std::as_bytes(std::span(bytes).subspan(split)));
    CHECK(sum.value() == whole);
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] ^= std::uint8_t(1 << bit % 8);
    CHECK(crc(bytes) != whole);
    bytes[bit / 8] ^= std::uint8_t(1 << bit % 8);
  }
}

}  // namespace
