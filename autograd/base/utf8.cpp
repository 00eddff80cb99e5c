// Decodes UTF-8. An overlong form is rejected because its code point is smaller than the smallest
// code point that needs this number of bytes.
#include "autograd/base/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <utility>

namespace heed::autograd {
namespace {

using CodePoints = std::pair<char32_t, char32_t>;  // the first and the last, both included
constexpr CodePoints kBlank[] = {{0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                 {0x202F, 0x202F}, {0x205F, 0x205F}, {0x2800, 0x2800},
                                 {0x3000, 0x3000}, {0xFE00, 0xFE0F}};
// Other invisible characters: soft hyphen, joiners, Hangul fillers, marks and overrides of the
// direction, line and paragraph separators, byte order mark, tags.
constexpr CodePoints kFormats[] = {
    {0xAD, 0xAD},     {0x34F, 0x34F},   {0x61C, 0x61C},   {0x115F, 0x1160},  {0x17B4, 0x17B5},
    {0x180B, 0x180F}, {0x200B, 0x200F}, {0x2028, 0x202E}, {0x2060, 0x206F},  {0x3164, 0x3164},
    {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE0FFF}};

bool is_in(char32_t c, std::span<const CodePoints> list) {
  return std::ranges::any_of(list, [c](auto x) { return c >= x.first && c <= x.second; });
}

}  // namespace

std::optional<char32_t> next_code_point(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return std::uint8_t(text[i]); };
  const std::uint8_t lead = byte(at);
  if (lead < 0x80) {
    ++at;
    return lead;
  }
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC0 || lead >= 0xF8 || text.size() - at < length) return {};
  char32_t c = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return {};
    c = c << 6 | (byte(at + i) & 0x3Fu);
  }
  constexpr std::array<char32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  if (c < kSmallest[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return {};
  at += length;
  return c;
}

bool is_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size())
    if (!next_code_point(text, at)) return false;
  return true;
}

std::string to_utf8(char32_t c) {
  const auto tail = [c](int shift) { return char(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) return {char(c)};
  if (c < 0x800) return {char(0xC0 | c >> 6), tail(0)};
  if (c < 0x10000) return {char(0xE0 | c >> 12), tail(6), tail(0)};
  return {char(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

std::string code_point_name(char32_t c) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "U+%04X", unsigned(c));
  return text.data();
}

bool is_blank(char32_t c) { return is_in(c, kBlank); }

std::string printable(char32_t c) {
  if (c == U'\n') return "\\n";
  if (c == U'\t') return "\\t";
  if (c == U'\r') return "\\r";
  if (is_blank(c) || is_in(c, kFormats)) return code_point_name(c);
  if (c >= 0x20 && (c < 0x7F || c >= 0xA0)) return to_utf8(c);
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "\\x%02x", unsigned(c));
  return text.data();
}

std::string printable(std::string_view text) {
  std::string all;
  for (std::size_t at = 0; at < text.size();) all += printable(next_code_point(text, at).value());
  return all;
}

}  // namespace heed::autograd
