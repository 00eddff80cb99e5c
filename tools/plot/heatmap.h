// Grids of heat maps, one panel per attention head, with one color bar for all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/plot/image.h"

namespace heed::plot {

/// One matrix, row by row. Non-finite values are drawn in gray and do not count for the scale.
struct Panel {
  std::string title;  // "L0H1"
  int rows = 0, cols = 0;
  std::vector<float> values;              // [rows, cols]
  std::vector<std::uint8_t> masked = {};  // [rows, cols], 1 where a mask hides the cell, or empty
};

enum class ColorScale {
  kSequential,  ///< viridis from 0 to the largest value; below 0 looks like 0
  kDiverging,   ///< blue-white-orange, symmetric, to the largest |value|
};

/// Panels of one size, side by side, `panel_columns` to a row. The tokens label each row of panels
/// at its left and the lowest panels; without them positions do.
struct HeatmapGrid {
  std::string title = {};
  std::string caption = {};         ///< how to read it, below the title
  std::string gray = "not finite";  ///< what values that are not finite, drawn gray, stand for
  std::vector<Panel> panels = {};
  int panel_columns = 1;
  std::vector<std::string> row_labels = {}, col_labels = {};  ///< [rows] and [cols], or empty
  std::string row_axis = {}, col_axis = {};                   ///< "query", "key"
  std::string value_name = {};  ///< beside the color bar: "attention weight"
  ColorScale scale = ColorScale::kSequential;
  /// Colors by the root of |value|, and each panel to its own largest |value|. Without a choice
  /// here the numbers decide (color_range.h); the color bar says what they decided.
  std::optional<bool> root = {}, by_panel = {};
  std::string masked = "masked";  ///< what masked cells are, in the legend
  /// Masked cells show their values, hatched and outlined. Else they are light gray, and their
  /// values are of no account.
  bool hatch = false;
  bool print_values = false;  ///< in the cells, if they can be large enough; else the caption says
};

/// A masked cell's gray, lighter than that of a value that is not finite.
inline constexpr Rgb kMaskedGray{218, 218, 218};

/// Draws the grid, at most about 2400 pixels wide and high: cells shrink to one pixel, then each
/// pixel stands for a square block of cells and shows its value of largest magnitude (NaN if the
/// block holds one; a masked cell counts where all of the block are), which the caption says.
/// ValueError: no panels, or panel_columns < 1. ShapeError: an empty panel, panels of different
/// sizes, values, masks or labels of another count than the sizes say.
Image draw_heatmap(const HeatmapGrid& grid);

}  // namespace heed::plot
