// The interface of all pictures: functions that draw lines, rectangles, areas and text. A picture
// is drawn once, and the canvas decides whether the result is pixels (image.h) or SVG (svg.h).
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

/// Position of a text relative to the point that Canvas::text receives.
enum class Align {
  kLeft,    ///< the text begins at the point
  kCenter,  ///< the middle of the text is at the point
  kRight    ///< the text ends at the point
};

/// Appearance of a line of text.
struct TextStyle {
  Rgb color = kInk;            ///< color of the letters
  double size = 16.5;          ///< pixels per em, at least kSmallestText
  Align align = Align::kLeft;  ///< position relative to the point passed to Canvas::text
  bool upward = false;         ///< true: the text runs from bottom to top, for a vertical axis
};

/// A point in the picture.
struct Spot {
  ///@{
  /// Coordinate in pixels.
  double x, y;
  ///@}
};

/// Number of dash patterns: 0 solid, 1 dashed, 2 dotted, 3 dash-dotted.
inline constexpr int kDashPatterns = 4;
/// Returns the lengths of dashes and gaps in pixels, alternating, of a pattern from 0 to
/// kDashPatterns - 1 (not checked). A solid line has none.
const std::vector<double>& dash_lengths(int dash);

/// Appearance of connected line segments, and the state of their dash pattern, which continues from
/// one segment to the next. Each curve needs its own pen.
struct Pen {
  Rgb color = kInk;        ///< color of the line
  int dash = 0;            ///< dash pattern, 0 to kDashPatterns - 1
  double thickness = 1;    ///< pixels
  std::size_t part = 0;    ///< index of the current dash (even) or gap (odd) in the pattern
  double in_part = 0;      ///< pixels of the current dash or gap that are done
  bool has_drawn = false;  ///< true after the first segment
};

/// A picture that is being drawn. The origin is at the top left, y grows downwards, and lengths are
/// in pixels. Drawing is clipped at the edges.
class Canvas {
 public:
  virtual ~Canvas() = default;

  /// Sets the size, and removes everything that was drawn.
  virtual void resize(int width, int height) = 0;
  /// Fills a rectangle.
  virtual void rect(int x, int y, int width, int height, Rgb color) = 0;
  /// Draws a line with round ends. If both ends are equal, it is a dot. Draws nothing if a
  /// coordinate is not finite.
  virtual void line(double x0, double y0, double x1, double y1, Rgb color,
                    double thickness = 1.0) = 0;
  /// Draws the next segment of a curve, with the color, thickness and dash pattern of `pen`.
  virtual void stroke(Pen& pen, Spot a, Spot b) = 0;
  /// Fills the area between two line segments: one from (x0, low0) to (x1, low1), the other from
  /// (x0, high0) to (x1, high1). Draws nothing if a coordinate is not finite or x0 >= x1.
  virtual void area(double x0, double low0, double high0, double x1, double low1, double high1,
                    Rgb color, double opacity) = 0;
  /// Draws one line of text. The tops of capital letters are at `y`, accents are above `y`, and
  /// `style.align` is relative to `x`. If the style is upward, the tops of capital letters are at
  /// `x`, and `style.align` is relative to `y`. Throws ValueError if the size is below
  /// kSmallestText.
  virtual void text(int x, int y, std::string_view text, const TextStyle& style = {}) = 0;

  /// Draws a border of 1 pixel inside of the rectangle.
  void frame(int x, int y, int width, int height, Rgb color);
  /// Draws `lines` below each other, the first at (x, y). Each line is shortened to at most `width`
  /// pixels. Returns the y of the next line. If the style is upward, each line is drawn to the
  /// right of the previous line, and the function returns `y`.
  int text_lines(int x, int y, const std::vector<std::string>& lines, int width,
                 const TextStyle& style);
};

}  // namespace heed::plot
