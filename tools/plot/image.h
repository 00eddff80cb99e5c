// A picture in memory, and the few shapes that the plots are drawn with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/plot/text.h"

namespace heed::plot {

/// A color, sRGB, 8 bits per channel.
struct Rgb {
  std::uint8_t r = 0, g = 0, b = 0;
  bool operator==(const Rgb&) const = default;
};

/// From `a` at share 0 to `b` at share 1.
Rgb mix(Rgb a, Rgb b, double share);

inline constexpr Rgb kWhite{255, 255, 255};
inline constexpr Rgb kInk{34, 34, 34};
inline constexpr Rgb kMuted{110, 110, 110};  ///< of text that explains
inline constexpr Rgb kGray{187, 187, 187};

enum class Align { kLeft, kCenter, kRight };

/// `size` in pixels per em. `align` says which end of the text the point given to `Image::text` is.
/// `upward` turns the text to read from bottom to top, as along a vertical axis.
struct TextStyle {
  Rgb color = kInk;
  double size = 16.5;
  Align align = Align::kLeft;
  bool upward = false;
};

/// A line of text that was drawn, and the rectangle of its ink, cut at nothing: one that reaches
/// beyond the picture was cut there.
struct TextBox {
  std::string text;
  double size = 0;
  int x = 0, y = 0, width = 0, height = 0;
};

/// RGB8 pixels, origin at the top left, y grows downwards. What falls outside is not drawn.
class Image {
 public:
  /// Sizes in pixels, 1 to 16384 each; else ValueError.
  Image(int width, int height, Rgb color = kWhite);

  int width() const { return width_; }
  int height() const { return height_; }
  const std::uint8_t* data() const { return pixels_.data(); }  // [height, width, 3]
  Rgb at(int x, int y) const;  ///< inside the picture, else ValueError

  void set(int x, int y, Rgb color) { blend(x, y, color, 1.0); }
  void rect(int x, int y, int width, int height, Rgb color);   ///< filled
  void frame(int x, int y, int width, int height, Rgb color);  ///< 1 px border inside the rectangle
  /// Antialiased, round ends, `thickness` in pixels; pixel (i, j) covers [i, i+1) x [j, j+1).
  /// Draws nothing when a coordinate is not finite.
  void line(double x0, double y0, double x1, double y1, Rgb color, double thickness = 1.0);
  /// What lies between two segments, from (x0, low0) to (x1, low1) and from (x0, high0) to (x1,
  /// high1), as far as pixels' centers do: areas that share an end do not overlap. Draws nothing
  /// when a coordinate is not finite.
  void area(double x0, double low0, double high0, double x1, double low1, double high1, Rgb color,
            double opacity);
  /// One line of text whose capitals' tops are at `y`, aligned at `x`; upward: tops at `x`, aligned
  /// at `y`. Accents stand above. ValueError: a size below kSmallestText.
  void text(int x, int y, std::string_view text, const TextStyle& style = {});
  /// `lines`, each cut to `width`, one below the other from (x, y) on, upward: one to the right of
  /// the other; returns the y below them.
  int text_lines(int x, int y, const std::vector<std::string>& lines, int width,
                 const TextStyle& style);
  /// What text() has drawn, in order; lines without ink are left out.
  const std::vector<TextBox>& text_boxes() const { return text_boxes_; }

 private:
  void blend(int x, int y, Rgb color, double opacity);

  int width_, height_;
  std::vector<std::uint8_t> pixels_;
  std::vector<TextBox> text_boxes_;
};

}  // namespace heed::plot
