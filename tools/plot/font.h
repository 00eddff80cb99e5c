// Rasterizes DejaVu Sans with stb_truetype, for text.cpp and image.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace heed::plot {

/// A rasterized line of text: how much of each pixel is covered by letters.
struct TextMask {
  ///@{
  /// Position of pixel (0, 0) of the mask, in pixels. `left` is relative to the beginning of the
  /// line, and `top` is relative to the top of a capital letter.
  int left = 0, top = 0;
  ///@}
  ///@{
  /// Size of the mask in pixels.
  int width = 0, height = 0;
  ///@}
  std::vector<std::uint8_t> coverage;  ///< [height, width], row by row, 0 to 255
};

/// Rasterizes one line of UTF-8 text, with kerning. A character that the font lacks is drawn as a
/// box. Throws ValueError if `size` is below kSmallestText.
TextMask rasterize_text(std::string_view text, double size);

/// Returns the distance from the beginning of the line to the position of the next character, in
/// pixels. Throws ValueError if `size` is below kSmallestText.
double advance_width(std::string_view text, double size);

/// Returns true if the character `c` is visible. Returns false for a space, for example.
bool has_ink(char32_t c);

}  // namespace heed::plot
