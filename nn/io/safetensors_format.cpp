#include "nn/io/safetensors_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "nn/io/limits.h"

namespace heed::nn::safetensors {

std::string quoted(const std::string& text) {
  const std::string shown = Json(text.substr(0, 80)).dump(true);
  return text.size() > 80 ? shown + "..." : shown;
}

std::string shown(const Json& value) {
  std::string text = value.dump(true);
  if (text.size() > 80) text.replace(80, std::string::npos, "...");
  return text;
}

autograd::Shape shape_of(const Json& sizes) {
  const auto bad = [&](const std::string& need) {
    throw JsonError("has shape " + shown(sizes) + "; heed needs " + need);
  };
  if (!sizes.as<Json::Array>() || sizes.items().size() > autograd::kMaxRank)
    bad("a list of at most 8 sizes");
  autograd::Shape shape;
  std::uint64_t elements = 1;  // a size of 0 counts as 1, so that strides cannot overflow
  for (const Json& size : sizes.items()) {
    const auto* n = size.as<std::uint64_t>();
    if (!n) bad("integer sizes >= 0");
    if (*n > kMaxElements || (*n > 0 && elements > kMaxElements / *n)) bad("at most 2^40 elements");
    elements *= std::max<std::uint64_t>(*n, 1);
    shape.push_back(std::int64_t(*n));
  }
  return shape;
}

// The search finds only the entry in the metadata, because quotes inside of strings are escaped.
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
