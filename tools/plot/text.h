// Text of the pictures: the stb_easy_font bitmap font, smoothed, at integer scales.
// Strings are UTF-8; what the font cannot show (all but ASCII 32 to 126) is escaped, never dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::plot {

inline constexpr int kCapHeight = 7;   ///< font units (pixels at scale 1) from cap top to baseline
inline constexpr int kTextHeight = 9;  ///< with descenders
inline constexpr int kLineHeight = 13;

/// `text` as the font shows it: `\n`, `\t`, `\r`, `\x07`, `\u{e9}`; an invalid byte is `\xff`.
std::string visible_text(std::string_view text);

/// `text` with invalid UTF-8 and NUL replaced by U+FFFD, fit for file metadata.
std::string valid_utf8(std::string_view text);

/// Width in pixels at `scale` of the one line `text`.
int text_width(std::string_view text, int scale = 2);

/// `text` broken at spaces into lines of at most `width` pixels (a longer word gets its own line).
std::vector<std::string> wrap_text(std::string_view text, int width, int scale);

/// `text` if at most `width` characters wide once visible, else its beginning and "..".
std::string shorten_text(std::string_view text, std::size_t width);

/// `value` with `digits` significant digits: 0.333, -12, 1.5e-07, nan. The locale plays no part.
std::string format_number(double value, int digits = 3);

/// How much of each pixel the ink of a line of text covers, 0 to 255, row by row.
struct TextMask {
  int width = 0, height = 0;
  std::vector<std::uint8_t> coverage;  // [height, width]
};
TextMask rasterize_text(std::string_view text, int scale);

}  // namespace heed::plot
