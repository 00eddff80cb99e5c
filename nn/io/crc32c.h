// CRC-32C, the checksum of iSCSI, ext4 and TFRecord files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace heed::nn {

/// CRC-32C (Castagnoli's polynomial, reflected; RFC 3720 section 12.1, test vectors in B.4) of
/// bytes that come in parts. Any damage within 32 neighboring bits changes it for certain, other
/// damage but for one chance in 2^32.
class Crc32c {
 public:
  void add(std::span<const std::byte> bytes);
  std::uint32_t value() const { return ~state_; }

 private:
  std::uint32_t state_ = 0xffffffff;
};

}  // namespace heed::nn
