#include "tools/heed/study/page/page.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

// Defined in page_files.cpp.
extern "C" __attribute__((visibility("hidden"))) const char heed_page_html[], heed_page_style[],
    heed_page_script[];

namespace heed {
namespace {

constexpr int kLargestCode = 32767;
constexpr int kHiddenCode = -32768;

std::string base64_of(std::span<const std::uint8_t> bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) group = group << 8 | (k < left ? bytes[i + k] : 0);
    for (std::size_t k = 0; k < 4; ++k)
      text += k <= left ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

// Replaces the first occurrence of `mark` in the page by `text`. Throws std::logic_error if there
// is none.
void fill_in(std::string& page, std::string_view mark, std::string_view text) {
  const std::size_t at = page.find(mark);
  if (at == std::string::npos)
    throw std::logic_error("report.html does not contain " + std::string(mark));
  page.replace(at, mark.size(), text);
}

// Returns the text with each `from` replaced by `to`.
std::string replaced(std::string_view text, char from, std::string_view to) {
  std::string result;
  for (const char c : text) result += c == from ? to : std::string_view(&c, 1);
  return result;
}

}  // namespace

nn::Json encode_map(const nn::BlockMap& map) {
  const auto shown = [&](std::size_t i) {
    return std::isfinite(map.values[i]) && map.hidden[i] == 0;
  };
  std::vector<std::size_t> kept;  // indices of the stored cells
  for (std::int64_t row = 0; row < map.size; ++row)
    for (std::int64_t column = 0; column <= row; ++column)
      kept.push_back(std::size_t(row * map.size + column));
  double scale = 0;
  for (const std::size_t i : kept)
    if (shown(i)) scale = std::max(scale, std::abs(map.values[i]));
  std::vector<std::uint8_t> bytes;
  bytes.reserve(2 * kept.size());
  for (const std::size_t i : kept) {
    int code = kHiddenCode;
    if (shown(i)) code = scale > 0 ? int(std::lround(map.values[i] / scale * kLargestCode)) : 0;
    bytes.push_back(std::uint8_t(code & 0xFF));
    bytes.push_back(std::uint8_t(code >> 8 & 0xFF));
  }
  return nn::Json::object({{"scale", scale}, {"data", base64_of(bytes)}});
}

std::string study_page(const nn::Json& data) {
  // In JSON, the character '<' occurs only inside strings. It is escaped, so that no string can
  // contain </script> or <!--.
  const std::string json = replaced(data.dump(), '<', "\\u003c");
  std::string page = heed_page_html;
  fill_in(page, "/* report.css */", heed_page_style);
  fill_in(page, "/* the scripts */", heed_page_script);
  fill_in(page, "/* the data */", json);
  // The title is last, because a mark in it would come before the marks that are replaced above.
  const nn::Json* title = data.find("title");
  const std::string text = replaced(title ? title->text() : "heed study", '&', "&amp;");
  fill_in(page, "/* the title */", replaced(text, '<', "&lt;"));
  return page;
}

}  // namespace heed
