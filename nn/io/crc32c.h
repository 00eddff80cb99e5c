// CRC-32C, the checksum of iSCSI, ext4 and TFRecord files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace heed::nn {

/// CRC-32C checksum of a sequence of bytes, computed incrementally (Castagnoli's polynomial,
/// reflected; RFC 3720 section 12.1, test vectors in B.4). Damage within 32 neighboring bits always
/// changes the checksum. Other damage changes it with probability 1 - 2^-32.
class Crc32c {
 public:
  /// Appends bytes to the sequence. Uses the instruction of SSE 4.2 if the processor has it.
  void add(std::span<const std::byte> bytes);
  /// Does the same as add(), with tables instead of the instruction.
  void add_by_tables(std::span<const std::byte> bytes);
  /// Returns the checksum of all bytes so far.
  std::uint32_t value() const { return ~state_; }

 private:
  std::uint32_t state_ = 0xffffffff;
};

}  // namespace heed::nn
