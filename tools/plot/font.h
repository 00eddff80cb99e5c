// Rasterizes DejaVu Sans with stb_truetype. Only text.cpp and image.cpp include this header.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace heed::plot {

/// The ink of a line of text, as the coverage of each pixel.
struct TextMask {
  ///@{
  /// Offset of pixel (0, 0) from the beginning of the line at the top of its capitals, in pixels.
  int left = 0, top = 0;
  ///@}
  ///@{
  /// Size of the mask in pixels.
  int width = 0, height = 0;
  ///@}
  std::vector<std::uint8_t> coverage;  ///< [height, width], row by row, 0 to 255
};

/// Returns the ink of one line of UTF-8 text with kerning. A character that the font lacks is drawn
/// as the font's box. Throws ValueError if `size` is below kSmallestText.
TextMask rasterize_text(std::string_view text, double size);

/// Returns the distance from the beginning of the line to the position of the next character, in
/// pixels. Throws ValueError if `size` is below kSmallestText.
double advance_width(std::string_view text, double size);

/// Returns true if the glyph of `c` has visible ink; a space has none.
bool has_ink(char32_t c);

}  // namespace heed::plot
