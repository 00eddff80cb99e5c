// Reads the page of a study (report.html): its data, and its heat maps.
#pragma once

#include "nn/io/json.h"
#include "tests/support/catch.h"

namespace heed::testing {

/// Returns the JSON data inside a page.
inline std::string data_of(const std::string& page) {
  const std::string start = "id=\"data\">";
  const std::size_t at = page.find(start) + start.size();
  return page.substr(at, page.find("</script>", at) - at);
}

/// Decodes base64.
inline std::vector<std::uint8_t> bytes_of(const std::string& base64) {
  static const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  REQUIRE(base64.size() % 4 == 0);
  std::vector<std::uint8_t> bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : base64) {
    if (c == '=') break;
    REQUIRE(digits.find(c) != std::string::npos);
    bits = bits << 6 | std::uint32_t(digits.find(c));
    count += 6;
    if (count >= 8) bytes.push_back(std::uint8_t(bits >> (count -= 8) & 255));
  }
  return bytes;
}

/// Decodes a heat map like the page does, and returns its values in the order in which they are
/// stored. A cell that the page draws as masked is NaN.
inline std::vector<double> decoded(const nn::Json& map) {
  const auto bytes = bytes_of(map.find("data")->text());
  REQUIRE(bytes.size() % 2 == 0);
  std::vector<double> values;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const auto code = std::int16_t(bytes[i] | bytes[i + 1] << 8);
    values.push_back(code == -32768 ? NAN : map.find("scale")->number() * code / 32767);
  }
  return values;
}

}  // namespace heed::testing
