#include "nn/io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace heed::nn {

namespace {

using Table = std::array<std::uint32_t, 256>;

// kTables[k][b] is XORed into the checksum for a byte b after which k more bytes follow. With these
// tables, add_by_tables() processes eight bytes at a time ("slicing by 8", Kounavis & Berry 2005).
constexpr std::array<Table, 8> kTables = [] {
  std::array<Table, 8> tables{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t x = b;
    for (int bit = 0; bit < 8; ++bit) x = (x >> 1) ^ (x & 1 ? 0x82f63b78u : 0u);
    tables[0][b] = x;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 255];
    }
  return tables;
}();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t add_by_instruction(
    std::uint32_t x, std::span<const std::byte> bytes) {
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, &bytes[i], 8);
    x = std::uint32_t(_mm_crc32_u64(x, eight));
  }
  for (; i < bytes.size(); ++i) x = _mm_crc32_u8(x, std::to_integer<std::uint8_t>(bytes[i]));
  return x;
}
#endif

}  // namespace

void Crc32c::add(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) {
    state_ = add_by_instruction(state_, bytes);
    return;
  }
#endif
  add_by_tables(bytes);
}

void Crc32c::add_by_tables(std::span<const std::byte> bytes) {
  std::uint32_t x = state_;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    // The machine is little endian, which safetensors_format.h asserts.
    std::uint64_t eight = 0;
    std::memcpy(&eight, &bytes[i], 8);
    eight ^= x;
    x = 0;
    for (std::size_t k = 0; k < 8; ++k) x ^= kTables[7 - k][(eight >> (8 * k)) & 255];
  }
  for (; i < bytes.size(); ++i)
    x = (x >> 8) ^ kTables[0][(x ^ std::to_integer<std::uint32_t>(bytes[i])) & 255];
  state_ = x;
}

}  // namespace heed::nn
