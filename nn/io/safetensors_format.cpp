#include "nn/io/safetensors_format.h"

#include <fmt/format.h>

#include <span>

#include "nn/io/json.h"

namespace heed::nn::safetensors {

std::string quoted(const std::string& text) {
  const std::string shown = Json(text.substr(0, 80)).dump(true);
  return text.size() > 80 ? shown + "..." : shown;
}

// Within a text the quotes would be escaped: only the metadata's own entry is found.
std::size_t find_checksum(const std::string& header) {
  const std::string entry =
      std::string("\"") + kChecksumKey + "\":\"" + std::string(kChecksumPrefix);
  const std::size_t at = header.find(entry);
  return at == std::string::npos ? at : at + entry.size();
}

Crc32c checksum_of_header(std::string header) {
  Crc32c sum;
  const std::uint64_t length = header.size();
  if (const std::size_t at = find_checksum(header); at != std::string::npos)
    header.replace(at, kNoChecksum.size(), kNoChecksum);
  sum.add(std::as_bytes(std::span(&length, 1)));
  sum.add(std::as_bytes(std::span(header)));
  return sum;
}

std::string checksum_text(const Crc32c& sum) { return fmt::format("{:08x}", sum.value()); }

}  // namespace heed::nn::safetensors
