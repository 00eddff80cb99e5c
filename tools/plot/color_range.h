// Mapping from the values of a heat map to colors.
#pragma once

#include <string>
#include <vector>

#include "tools/plot/heatmap.h"

namespace heed::plot {

/// Mapping from values to colors for all panels of a grid. It is linear.
struct ColorRange {
  ColorScale scale = ColorScale::kSequential;  ///< colors of the scale
  double limit = 1;                            ///< above 0: the value that has the last color
  /// [panels], the largest visible value, or the largest magnitude if the scale is diverging
  std::vector<double> largest = {};

  /// Returns the color of a value; values beyond the ends of the scale are clamped.
  Rgb color(double value) const;
  /// Returns the value with the first color: -limit if diverging, else 0.
  double first() const { return scale == ColorScale::kDiverging ? -limit : 0; }
  /// Returns the range of values in words, for example "0 to 0.31".
  std::string text() const;
};

/// Returns the mapping for `grid`. If the grid has no limit, it is the largest magnitude of the
/// visible values.
ColorRange color_range(const HeatmapGrid& grid);

}  // namespace heed::plot
