// DejaVu Sans, through stb_truetype. For text.cpp and image.cpp alone.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace heed::plot {

/// How much of each pixel the ink of a line of text covers, 0 to 255, row by row. Pixel (0, 0) lies
/// `left` and `top` pixels from where the line begins, at the height of its capitals' tops.
struct TextMask {
  int left = 0, top = 0, width = 0, height = 0;
  std::vector<std::uint8_t> coverage;  // [height, width]
};

/// The ink of one line, kerned. `text` is UTF-8; a character that the font lacks is its box.
/// ValueError: size below kSmallestText.
TextMask rasterize_text(std::string_view text, double size);

/// From the beginning of the line to where the next character would stand, in pixels.
double advance_width(std::string_view text, double size);

/// Whether there is anything to see of `c`: a space has no ink.
bool has_ink(char32_t c);

}  // namespace heed::plot
