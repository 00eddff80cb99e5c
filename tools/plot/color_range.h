// Mapping from the values of a heat map to colors: the limits of the color scale, and its form,
// which is linear or a square root.
#pragma once

#include <string>
#include <vector>

#include "tools/plot/heatmap.h"

namespace heed::plot {

/// Mapping from values to colors for all panels of a grid.
struct ColorRange {
  ColorScale scale = ColorScale::kSequential;  ///< colors of the scale
  bool root = false;                ///< true: square root of |value| / limit; false: linear
  bool by_panel = false;            ///< true: each panel has its own limit
  std::vector<double> limits = {};  ///< [panels], above 0: the value that has the last color
  /// [panels], the largest visible value, or the largest magnitude if the scale is diverging
  std::vector<double> largest = {};

  /// Returns the position of a value of panel `p` on the color bar. Within the limits it is 0 to 1
  /// (sequential) or -1 to 1 (diverging).
  double position(double value, std::size_t p) const;
  /// Returns the color at a position of the color bar; positions beyond its ends are clamped.
  Rgb color(double position) const;

  /// Returns the position of the color bar's low end: -1 if diverging, else 0.
  double first_position() const { return scale == ColorScale::kDiverging ? -1 : 0; }
  /// Returns the numbers beside the color bar, from its low end to position 1. Their positions are
  /// evenly spaced.
  std::vector<double> bar_values() const;
  /// Returns the range of values in words, for example "0 to 0.31, by the root".
  std::string text(const HeatmapGrid& grid) const;
};

/// Returns the mapping for `grid`. If the grid sets `limit`, the scale is linear and has this limit
/// in all panels. Otherwise these rules apply:
/// - A diverging scale uses the square root, because a few entries of a gradient are usually much
///   larger than all other entries.
/// - A sequential scale uses the square root if fewer than 1 in 100 visible cells are above half of
///   the largest value. On a linear scale all other cells would have nearly the same color.
/// - Each panel has its own limit if the largest value of more than half of the panels is below
///   1/50 of the largest value of the grid. Panels with only zeros do not count. With one common
///   limit, the panels with small values would look empty.
ColorRange color_range(const HeatmapGrid& grid);

}  // namespace heed::plot
