// Format of the numbers printed in the cells of a heat map. All cells have one unit, which is a
// power of ten, and the same number of decimals.
#pragma once

#include <string>

#include "tools/plot/heatmap.h"

namespace heed::plot {

/// Number format shared by all cells of a grid.
struct CellNumbers {
  int exponent = 0;  ///< numbers are printed in units of 10^exponent
  int decimals = 2;  ///< digits after the decimal point

  /// Returns `value` as text, for example "0.53" or "−1.20". Returns "0" if the value is exactly 0,
  /// and "" if it is not finite.
  std::string text(double value) const;
  /// Returns the width in pixels of the widest number of the grid, at text size `size`.
  int width(const HeatmapGrid& grid, double size) const;
};

/// Returns the format for values of magnitude at most `largest`. It prints `largest` with three
/// digits, for example 0.53, 5.34, 534 or, in units of 10^3, 5.34.
CellNumbers cell_numbers(double largest);

}  // namespace heed::plot
