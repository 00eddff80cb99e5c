// Numbers as the cells of a heat map have them: few digits, all with the same unit.
#pragma once

#include <string>

#include "tools/plot/heatmap.h"

namespace heed::plot {

struct CellNumbers {
  int exponent = 0;  ///< they are in units of 10^exponent
  int decimals = 2;

  /// "0.53", "−1.20", "0" for zero itself; "" where there is no finite number.
  std::string text(double value) const;
  /// Of the widest of these panels' numbers, in pixels.
  int width(const HeatmapGrid& grid, double size) const;
};

/// For magnitudes up to `largest`: three digits of it.
CellNumbers cell_numbers(double largest);

}  // namespace heed::plot
