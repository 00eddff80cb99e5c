// A picture of pixels in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/plot/canvas.h"

namespace heed::plot {

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

/// A picture of RGB pixels, 8 bits per channel. Pixel (i, j) covers [i, i+1) x [j, j+1).
class Image final : public Canvas {
 public:
  /// Creates a picture filled with `color`. Throws ValueError unless width and height are 1 to
  /// 16384 pixels.
  explicit Image(int width = 1, int height = 1, Rgb color = kWhite);

  int width() const { return width_; }    ///< width in pixels
  int height() const { return height_; }  ///< height in pixels
  /// Returns the pixels, [height, width, 3] bytes in the order red, green, blue.
  const std::uint8_t* data() const { return pixels_.data(); }
  /// Returns the color of a pixel. Throws ValueError if it is outside of the picture.
  Rgb at(int x, int y) const;

  /// Sets one pixel; a pixel outside of the picture is ignored.
  void set(int x, int y, Rgb color) { blend(x, y, color, 1.0); }
  /// Replaces the picture by an empty picture. Throws the error of the constructor.
  void resize(int width, int height) override { *this = Image(width, height); }
  void rect(int x, int y, int width, int height, Rgb color) override;
  void line(double x0, double y0, double x1, double y1, Rgb color, double thickness = 1.0) override;
  void stroke(Pen& pen, Spot a, Spot b) override;
  /// As in Canvas. A column of pixels is filled if its center is in [x0, x1), so that two areas
  /// that share an end do not overlap.
  void area(double x0, double low0, double high0, double x1, double low1, double high1, Rgb color,
            double opacity) override;
  void text(int x, int y, std::string_view text, const TextStyle& style = {}) override;
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
