// Which color a value of a grid of heat maps gets: where the scale ends, and how values lie on it.
#pragma once

#include <string>
#include <vector>

#include "tools/plot/heatmap.h"

namespace heed::plot {

struct ColorRange {
  ColorScale scale = ColorScale::kSequential;
  bool root = false;                ///< by the root of |value|
  bool by_panel = false;            ///< each panel to its own limit
  std::vector<double> limits = {};  ///< of each panel, above 0: its value of the last color

  /// Where a value of panel p lies on the color bar: 0 to 1 or, diverging, -1 to 1, if it is within
  /// the limits.
  double position(double value, std::size_t p) const;
  Rgb color(double position) const;

  double first_position() const { return scale == ColorScale::kDiverging ? -1 : 0; }
  /// The numbers at the color bar, from its first position to 1, evenly spaced.
  std::vector<double> bar_values() const;
  /// "0 to 0.31, by the root".
  std::string text(const HeatmapGrid& grid) const;
};

/// The grid's own choice or, without one:
/// - a diverging scale goes by the root: a few entries of a gradient are much larger than all the
///   rest. A sequential one does where fewer than 1 in 100 of the cells that are not hidden lie
///   above half of the largest value: else all but these few look alike.
/// - each panel has its own limit where half of those that are not all 0 end below 1/50 of the
///   largest value: they would look empty.
ColorRange color_range(const HeatmapGrid& grid);

}  // namespace heed::plot
