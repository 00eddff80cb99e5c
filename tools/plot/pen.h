// A pen that draws dashed lines. The dash pattern continues from one line segment to the next.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/plot/image.h"

namespace heed::plot {

/// Number of dash patterns: 0 solid, 1 dashed, 2 dotted, 3 dash-dotted.
inline constexpr int kDashPatterns = 4;

/// A point in the picture.
struct Spot {
  ///@{
  /// Coordinate in pixels.
  double x, y;
  ///@}
};

/// Draws connected line segments; the dash pattern continues from one segment to the next.
class Pen {
 public:
  /// Creates a pen that draws into `image`, which must outlive it. `dash` is a pattern from 0 to
  /// kDashPatterns - 1 (not checked), `thickness` is in pixels.
  Pen(Image& image, Rgb color, int dash, double thickness);
  /// Draws the segment from `a` to `b`.
  void line(Spot a, Spot b);

 private:
  Image& image_;
  Rgb color_;
  double thickness_;
  const std::vector<double>& pattern_;
  std::size_t part_ = 0;  // index of the current dash (even) or gap (odd) in the pattern
  double in_part_ = 0;    // pixels of the current dash or gap that are done
};

}  // namespace heed::plot
