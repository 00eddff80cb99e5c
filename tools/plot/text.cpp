#include "tools/plot/text.h"

#include <stb/stb_easy_font.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace heed::plot {
namespace {

// One code point of UTF-8; `length` 0 means that the first byte of `text` starts no valid one.
struct CodePoint {
  char32_t value = 0;
  std::size_t length = 0;
};

CodePoint decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  char32_t value = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = (value << 6) | (byte(i) & 0x3Fu);
  }
  const bool overlong = value < (length == 4 ? 0x10000u : length == 3 ? 0x800u : 0x80u);
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (overlong || surrogate || value > 0x10FFFF) return {};
  return {value, length};
}

std::string hex(char32_t value) {
  char digits[8];
  const auto end = std::to_chars(digits, digits + 8, std::uint32_t(value), 16).ptr;
  return std::string(digits, end);
}

std::string byte_escape(unsigned char byte) {
  return std::string(byte < 16 ? "\\x0" : "\\x") + hex(byte);
}

int units_wide(const std::string& visible) {
  // stb_easy_font takes char* but does not write; the last advance includes one unit of spacing.
  const int advance = stb_easy_font_width(const_cast<char*>(visible.c_str()));
  return std::max(0, advance - 1);
}

// A picture of ink (1) and paper (0).
struct Bitmap {
  int width, height;
  std::vector<std::uint8_t> ink;
  int at(int x, int y) const {
    if (x < 0 || y < 0 || x >= width || y >= height) return 0;
    return ink[std::size_t(y * width + x)];
  }
  void set(int x, int y, int value) {
    if (x < 0 || y < 0 || x >= width || y >= height) return;
    ink[std::size_t(y * width + x)] = std::uint8_t(value);
  }
};

Bitmap empty_bitmap(int width, int height) {
  return {width, height, std::vector<std::uint8_t>(std::size_t(width * height))};
}

Bitmap font_bitmap(const std::string& visible) {
  Bitmap bitmap = empty_bitmap(units_wide(visible), kTextHeight);
  constexpr std::size_t kQuadBytes = 64, kQuadsPerCharacter = 24;  // four {x, y, z, color}
  std::vector<char> quads((visible.size() + 1) * kQuadsPerCharacter * kQuadBytes);
  const int count = stb_easy_font_print(0, 0, const_cast<char*>(visible.c_str()), nullptr,
                                        quads.data(), int(quads.size()));
  for (int q = 0; q < count; ++q) {
    float corner[2], opposite[2];
    std::memcpy(corner, &quads[std::size_t(q) * kQuadBytes], sizeof corner);
    std::memcpy(opposite, &quads[std::size_t(q) * kQuadBytes + 32], sizeof opposite);
    for (int y = int(corner[1]); y < int(opposite[1]); ++y) {
      for (int x = int(corner[0]); x < int(opposite[0]); ++x) {
        bitmap.set(x, y, 1);
      }
    }
  }
  return bitmap;
}

// Doubles a bitmap and turns its stairs into slopes: the Scale2x rule of A. Mazzoleni (2001).
Bitmap scale2x(const Bitmap& in) {
  Bitmap out = empty_bitmap(2 * in.width, 2 * in.height);
  for (int y = 0; y < in.height; ++y) {
    for (int x = 0; x < in.width; ++x) {
      const int here = in.at(x, y), up = in.at(x, y - 1), down = in.at(x, y + 1);
      const int left = in.at(x - 1, y), right = in.at(x + 1, y);
      const bool corner = up != down && left != right;
      out.set(2 * x, 2 * y, corner && left == up ? left : here);
      out.set(2 * x + 1, 2 * y, corner && up == right ? right : here);
      out.set(2 * x, 2 * y + 1, corner && down == left ? left : here);
      out.set(2 * x + 1, 2 * y + 1, corner && right == down ? right : here);
    }
  }
  return out;
}

}  // namespace

std::string visible_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const CodePoint point = decode(text);
    if (point.length == 0) {
      out += byte_escape(static_cast<unsigned char>(text[0]));
    } else if (point.value >= 32 && point.value <= 126) {
      out += text[0];
    } else if (point.value == '\n') {
      out += "\\n";
    } else if (point.value == '\t') {
      out += "\\t";
    } else if (point.value == '\r') {
      out += "\\r";
    } else if (point.value < 128) {
      out += byte_escape(static_cast<unsigned char>(text[0]));
    } else {
      out += "\\u{" + hex(point.value) + "}";
    }
    text.remove_prefix(std::max<std::size_t>(1, point.length));
  }
  return out;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const CodePoint point = decode(text);
    if (point.value == 0) {
      out += "\xEF\xBF\xBD";  // U+FFFD
    } else {
      out += text.substr(0, point.length);
    }
    text.remove_prefix(std::max<std::size_t>(1, point.length));
  }
  return out;
}

int text_width(std::string_view text, int scale) { return units_wide(visible_text(text)) * scale; }

std::vector<std::string> wrap_text(std::string_view text, int width, int scale) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string word(text.substr(0, space));
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (lines.empty() || text_width(lines.back() + " " + word, scale) > width) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
  }
  return lines;
}

std::string shorten_text(std::string_view text, std::size_t width) {
  std::string visible = visible_text(text);
  if (visible.size() <= width) return visible;
  return visible.substr(0, std::max<std::size_t>(width, 2) - 2) + "..";
}

std::string format_number(double value, int digits) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::general,
                                 std::max(digits, 1))
                       .ptr;
  return std::string(text, end);
}

TextMask rasterize_text(std::string_view text, int scale) {
  const Bitmap fine = scale2x(scale2x(scale2x(font_bitmap(visible_text(text)))));
  constexpr int kFine = 8, kSamples = 4;  // fine pixels per font unit, samples per pixel and axis
  TextMask mask{fine.width / kFine * scale, fine.height / kFine * scale, {}};
  mask.coverage.reserve(std::size_t(mask.width * mask.height));
  const auto fine_index = [&](int pixel, int sample) {
    return (2 * (pixel * kSamples + sample) + 1) * kFine / (2 * kSamples * scale);
  };
  for (int y = 0; y < mask.height; ++y) {
    for (int x = 0; x < mask.width; ++x) {
      int hits = 0;
      for (int s = 0; s < kSamples * kSamples; ++s) {
        hits += fine.at(fine_index(x, s % kSamples), fine_index(y, s / kSamples));
      }
      mask.coverage.push_back(std::uint8_t(hits * 255 / (kSamples * kSamples)));
    }
  }
  return mask;
}

}  // namespace heed::plot
