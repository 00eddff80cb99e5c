// A picture in memory, and functions that draw lines, rectangles, areas and text into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/plot/text.h"

namespace heed::plot {

/// A color in sRGB with 8 bits per channel.
struct Rgb {
  ///@{
  /// Red, green and blue, 0 to 255.
  std::uint8_t r = 0, g = 0, b = 0;
  ///@}
  /// Compares all channels.
  bool operator==(const Rgb&) const = default;
};

/// Returns a linear mixture of two colors. It is `a` if `share` is 0, and `b` if `share` is 1.
Rgb mix(Rgb a, Rgb b, double share);

inline constexpr Rgb kWhite{255, 255, 255};  ///< background
inline constexpr Rgb kInk{34, 34, 34};       ///< text and axes
inline constexpr Rgb kMuted{110, 110, 110};  ///< captions and other explanations
inline constexpr Rgb kGray{187, 187, 187};   ///< values that are not finite

/// Position of a text relative to the point that Image::text receives.
enum class Align {
  kLeft,    ///< the text begins at the point
  kCenter,  ///< the middle of the text is at the point
  kRight    ///< the text ends at the point
};

/// Appearance of a line of text.
struct TextStyle {
  Rgb color = kInk;            ///< color of the letters
  double size = 16.5;          ///< pixels per em, at least kSmallestText
  Align align = Align::kLeft;  ///< position relative to the point passed to Image::text
  bool upward = false;         ///< true: the text runs from bottom to top, for a vertical axis
};

/// A line of text that was drawn, with the bounding box of its letters in pixels. The box is not
/// clipped. If it extends beyond the picture, a part of the text was not drawn.
struct TextBox {
  std::string text;  ///< the drawn text, which is the result of visible_text()
  double size = 0;   ///< pixels per em
  ///@{
  /// Top left corner of the box.
  int x = 0, y = 0;
  ///@}
  ///@{
  /// Size of the box.
  int width = 0, height = 0;
  ///@}
};

/// A picture of RGB pixels, 8 bits per channel. The origin is at the top left and y grows
/// downwards. Pixel (i, j) covers [i, i+1) x [j, j+1). Drawing is clipped at the edges.
class Image {
 public:
  /// Creates a picture filled with `color`. Throws ValueError unless width and height are 1 to
  /// 16384 pixels.
  Image(int width, int height, Rgb color = kWhite);

  int width() const { return width_; }    ///< width in pixels
  int height() const { return height_; }  ///< height in pixels
  /// Returns the pixels, [height, width, 3] bytes in the order red, green, blue.
  const std::uint8_t* data() const { return pixels_.data(); }
  /// Returns the color of a pixel. Throws ValueError if it is outside of the picture.
  Rgb at(int x, int y) const;

  /// Sets one pixel; a pixel outside of the picture is ignored.
  void set(int x, int y, Rgb color) { blend(x, y, color, 1.0); }
  /// Fills a rectangle.
  void rect(int x, int y, int width, int height, Rgb color);
  /// Draws a border of 1 pixel inside of the rectangle.
  void frame(int x, int y, int width, int height, Rgb color);
  /// Draws an antialiased line with round ends; `thickness` is in pixels. Draws nothing if a
  /// coordinate is not finite.
  void line(double x0, double y0, double x1, double y1, Rgb color, double thickness = 1.0);
  /// Fills the area between two line segments: one from (x0, low0) to (x1, low1), the other from
  /// (x0, high0) to (x1, high1). A column of pixels is filled if its center is in [x0, x1), so that
  /// two areas that share an end do not overlap. Draws nothing if a coordinate is not finite or x0
  /// >= x1.
  void area(double x0, double low0, double high0, double x1, double low1, double high1, Rgb color,
            double opacity);
  /// Draws one line of text. The tops of capital letters are at `y`, accents are above `y`, and
  /// `style.align` is relative to `x`. If the style is upward, the tops of capital letters are at
  /// `x`, and `style.align` is relative to `y`. Throws ValueError if the size is below
  /// kSmallestText.
  void text(int x, int y, std::string_view text, const TextStyle& style = {});
  /// Draws `lines` below each other, the first at (x, y). Each line is shortened to at most `width`
  /// pixels. Returns the y of the next line. If the style is upward, each line is drawn to the
  /// right of the previous line, and the function returns `y`.
  int text_lines(int x, int y, const std::vector<std::string>& lines, int width,
                 const TextStyle& style);
  /// Returns all lines that text() has drawn, in order. Lines without visible characters are left
  /// out.
  const std::vector<TextBox>& text_boxes() const { return text_boxes_; }

 private:
  void blend(int x, int y, Rgb color, double opacity);

  int width_, height_;
  std::vector<std::uint8_t> pixels_;
  std::vector<TextBox> text_boxes_;
};

}  // namespace heed::plot
