// What writing and reading of PNG files share: the PNG specification's signature and checksum.
#pragma once

#include <cstdint>
#include <string_view>

namespace heed::plot {

inline constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
inline constexpr std::size_t kLongestKeyword = 79;

/// CRC-32 of annex D, of bytes that come one piece after the other.
class PngCrc {
 public:
  void add(std::string_view bytes);
  std::uint32_t value() const { return ~crc_; }

 private:
  std::uint32_t crc_ = 0xFFFFFFFFu;
};

}  // namespace heed::plot
