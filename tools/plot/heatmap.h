// Grids of heat maps, usually one panel per attention head, with one color bar for all panels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/plot/image.h"

namespace heed::plot {

/// One matrix. Values that are not finite are drawn gray and do not affect the color scale.
struct Panel {
  std::string title;  ///< text above the panel, for example "L0H1"
  ///@{
  /// Size of the matrix, each at least 1.
  int rows = 0, cols = 0;
  ///@}
  std::vector<float> values;              ///< [rows, cols], row by row
  std::vector<std::uint8_t> masked = {};  ///< [rows, cols], 1 = the cell is masked; or empty
};

/// Colors of a heat map.
enum class ColorScale {
  kSequential,  ///< viridis from 0 to the largest value; a negative value has the color of 0
  kDiverging,   ///< blue-white-orange, symmetric about 0, up to the largest |value|
};

/// Panels of one size side by side. Labels are at the left of each row of panels and below the
/// lowest panels; without labels the positions are printed.
struct HeatmapGrid {
  std::string title = {};           ///< above the picture; wrapped
  std::string caption = {};         ///< explanation below the title; wrapped
  std::string gray = "not finite";  ///< meaning of values that are not finite, for the legend
  std::vector<Panel> panels = {};   ///< row by row, at least one
  int panel_columns = 1;            ///< panels per row, at least 1
  ///@{
  /// Labels (tokens) of the rows or columns: one each, or empty.
  std::vector<std::string> row_labels = {}, col_labels = {};
  ///@}
  ///@{
  /// Name of an axis, for example "query" and "key".
  std::string row_axis = {}, col_axis = {};
  ///@}
  std::string value_name = {};  ///< text beside the color bar, for example "attention weight"
  ColorScale scale = ColorScale::kSequential;  ///< colors of the values
  ///@{
  /// `root`: colors follow the square root of |value|. `by_panel`: each panel has its own limit. An
  /// unset member is chosen from the values (color_range.h), and the color bar states the choice.
  std::optional<bool> root = {}, by_panel = {};
  ///@}
  std::string masked = "masked";  ///< meaning of masked cells, for the legend
  /// True: masked cells show their values, hatched and outlined. False: masked cells are light gray
  /// and their values are ignored.
  bool hatch = false;
  /// Prints the values in the cells if the cells can be large enough; otherwise the caption says
  /// that there are too many cells.
  bool print_values = false;
};

/// Gray of a masked cell, lighter than that of a value that is not finite.
inline constexpr Rgb kMaskedGray{218, 218, 218};

/// Draws the grid as a picture of at most about 2400 x 2400 pixels. To fit, cells shrink to one
/// pixel. After that each pixel shows a square block of cells, and the caption says so. The color
/// of a block is that of its value of largest magnitude; it is gray if the block contains NaN, and
/// masked only if all of its cells are masked. Throws ValueError if there is no panel or if
/// panel_columns < 1. Throws ShapeError if a panel is empty, if panels differ in size, or if the
/// number of values, mask entries or labels does not match the size.
Image draw_heatmap(const HeatmapGrid& grid);

}  // namespace heed::plot
