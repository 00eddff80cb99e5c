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
  std::vector<float> values;  ///< [rows, cols], row by row
  /// [rows, cols], 1 if the cell is masked: light gray, and its value is ignored; or empty.
  std::vector<std::uint8_t> masked = {};
};

/// Colors of a heat map.
enum class ColorScale {
  kSequential,  ///< viridis from 0 to the largest value; a negative value has the color of 0
  kDiverging,   ///< blue-white-orange, symmetric about 0, up to the largest |value|
};

/// Heat maps of the same size, arranged in rows. Labels are to the left of each row of panels and
/// below the lowest panels. Without labels, the row and column numbers are printed.
struct HeatmapGrid {
  std::string title = {};          ///< title above the panels; long lines are wrapped
  std::string caption = {};        ///< explanation below the title; long lines are wrapped
  std::vector<Panel> panels = {};  ///< the heat maps, row by row; at least one
  int panel_columns = 1;           ///< panels per row, at least 1
  ///@{
  /// `row_labels` contains one label (token) per row of the matrix, and `col_labels` one per
  /// column. Each may also be empty.
  std::vector<std::string> row_labels = {}, col_labels = {};
  ///@}
  ///@{
  /// Names of the axis of rows and the axis of columns, for example "query" and "key".
  std::string row_axis = {}, col_axis = {};
  ///@}
  std::string value_name = {};  ///< text beside the color bar, for example "attention weight"
  ColorScale scale = ColorScale::kSequential;  ///< colors of the values
  /// End of the color scale of all panels, which is linear. If it is unset, the largest magnitude.
  /// The title of one of several panels states whether all its values are below 2 % of the limit.
  std::optional<double> limit = {};
  /// True: prints the value in each cell. If the cells would be too small for values, no values are
  /// printed, and a sentence in the caption states the reason.
  bool print_values = false;
};

/// Gray of a masked cell. It is lighter than kGray, the color of a value that is not finite.
inline constexpr Rgb kMaskedGray{218, 218, 218};

/// Draws the grid as a picture of at most about 2400 x 2400 pixels. Cells are drawn smaller, down
/// to one pixel, until the picture fits. If this is not enough, each pixel shows a square block of
/// cells, and the caption states the size of the blocks. A block has the color of its value of
/// largest magnitude. It is gray if a visible cell of the block is NaN, and masked only if all of
/// its cells are masked. Throws ValueError if `panels` is empty or if panel_columns < 1. Throws
/// ShapeError if a panel is empty, if panels differ in size, or if the number of values, mask
/// entries or labels does not match the size.
Image draw_heatmap(const HeatmapGrid& grid);
/// Draws the grid, as draw_heatmap() does, on `canvas`, which gets the size of the picture.
void draw(const HeatmapGrid& grid, Canvas& canvas);

}  // namespace heed::plot
