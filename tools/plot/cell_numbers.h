// Format of the numbers printed in the cells of a heat map: few digits, one unit for all cells.
#pragma once

#include <string>

#include "tools/plot/heatmap.h"

namespace heed::plot {

/// Number format shared by all cells of a grid.
struct CellNumbers {
  int exponent = 0;  ///< numbers are printed in units of 10^exponent
  int decimals = 2;  ///< digits after the decimal point

  /// Returns `value` as text, for example "0.53" or "−1.20". Exactly 0 is "0", and a value that is
  /// not finite is "".
  std::string text(double value) const;
  /// Returns the width in pixels of the widest number of the grid, at text size `size`.
  int width(const HeatmapGrid& grid, double size) const;
};

/// Returns the format for values of magnitude up to `largest`, which gets three digits.
CellNumbers cell_numbers(double largest);

}  // namespace heed::plot
