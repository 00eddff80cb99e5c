// Positions and sizes of all elements in a picture of heat maps.
#pragma once

#include "tools/plot/cell_numbers.h"
#include "tools/plot/color_range.h"
#include "tools/plot/heatmap.h"
#include "tools/plot/tick_labels.h"

namespace heed::plot {

/// One line of the legend below the caption. It explains one kind of cell.
struct LegendLine {
  enum Look { kNotFinite, kMasked } look;  ///< color of the swatch
  std::string text;                        ///< for example "gray: masked"
};

/// Layout of a picture. All lengths are in pixels.
struct HeatmapLayout {
  static constexpr int kMargin = 24, kTick = 5, kLabelGap = 6, kBarWidth = 22, kSwatch = 20;

  int cell = 1;   ///< width and height of a drawn cell
  int block = 1;  ///< a drawn cell shows a square of block x block values
  int cells_wide = 0, cells_high = 0;
  int panel_columns = 0, panel_rows = 0;
  int panel_title = 0;  ///< height of the titles above the panels, 0 if there are none
  double text_size = 0, title_size = 0;
  int gap = 0;            ///< space between panels
  int left = 0, top = 0;  ///< top left corner of the first panel's cells
  int bar_height = 0;
  int bar_numbers = 0;        ///< width of the widest number beside the color bar
  int width = 0, height = 0;  ///< size of the picture
  TickLabels rows, cols;
  std::vector<std::string> title, caption, row_axis, bar_name;  ///< wrapped lines
  std::vector<std::string> panel_titles;
  std::vector<LegendLine> legend;
  ColorRange colors;
  std::vector<double> bar_values;  ///< numbers beside the color bar, at evenly spaced positions
  CellNumbers numbers;             ///< format of the numbers in the cells
  double number_size = 0;          ///< text size of the numbers in the cells; 0 if none are printed

  int panel_width() const { return cells_wide * cell; }
  int panel_height() const { return cells_high * cell; }
  int row_pitch() const { return panel_height() + panel_title + gap; }
  int grid_width() const { return panel_columns * (panel_width() + gap) - gap; }
  int grid_height() const { return panel_rows * row_pitch() - panel_title - gap; }
  int panel_x(int p) const { return left + p % panel_columns * (panel_width() + gap); }
  int panel_y(int p) const { return top + p / panel_columns * row_pitch(); }
  int bar_x() const { return left + grid_width() + gap; }
  double pitch() const { return double(cell) / block; }  ///< pixels per row or column of the matrix
};

/// Returns the layout with the largest cells that fit. If even cells of one pixel do not fit, each
/// cell shows a block of values, and the blocks are as small as possible.
HeatmapLayout lay_out(const HeatmapGrid& grid);

}  // namespace heed::plot
