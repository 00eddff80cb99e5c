// A pen that draws dashed lines.
#pragma once

#include <cstddef>
#include <vector>

#include "tools/plot/image.h"

namespace heed::plot {

inline constexpr int kDashPatterns = 4;  ///< solid, dashed, dotted, dashes and dots

struct Spot {
  double x, y;
};

/// Draws connected lines with a pattern that continues from one to the next.
class Pen {
 public:
  Pen(Image& image, Rgb color, int dash, double thickness);
  void line(Spot a, Spot b);

 private:
  Image& image_;
  Rgb color_;
  double thickness_;
  const std::vector<double>& pattern_;
  std::size_t part_ = 0;
  double in_part_ = 0;
};

}  // namespace heed::plot
