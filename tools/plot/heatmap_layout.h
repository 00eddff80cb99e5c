// Where everything in a picture of heat maps goes.
#pragma once

#include "tools/plot/cell_numbers.h"
#include "tools/plot/color_range.h"
#include "tools/plot/heatmap.h"
#include "tools/plot/tick_labels.h"

namespace heed::plot {

/// What a kind of cell looks like, in words, below the caption.
struct LegendLine {
  enum Look { kNotFinite, kMasked, kHatched } look;
  std::string text;  // "gray: masked"
};

/// All in pixels.
struct HeatmapLayout {
  static constexpr int kMargin = 24, kTick = 5, kLabelGap = 6, kBarWidth = 22, kSwatch = 20;

  int cell = 1, block = 1;  // a square of `cell` pixels stands for block x block values
  int cells_wide = 0, cells_high = 0;
  int panel_columns = 0, panel_rows = 0, panel_title = 0;
  double text_size = 0, title_size = 0;
  int gap = 0;  // between panels: a label at the end of one and at the start of the next fit
  int left = 0, top = 0;                // of the first panel's cells
  int bar_height = 0, bar_numbers = 0;  // the widest number beside it
  int width = 0, height = 0;            // of the picture
  TickLabels rows, cols;
  std::vector<std::string> title, caption, row_axis, bar_name;  // lines
  std::vector<std::string> panel_titles;
  std::vector<LegendLine> legend;
  ColorRange colors;
  std::vector<double> bar_values;  // the numbers at the color bar, evenly spaced
  CellNumbers numbers;             // in the cells
  double number_size = 0;          // of their text; 0: none are printed

  int panel_width() const { return cells_wide * cell; }
  int panel_height() const { return cells_high * cell; }
  int row_pitch() const { return panel_height() + panel_title + gap; }
  int grid_width() const { return panel_columns * (panel_width() + gap) - gap; }
  int grid_height() const { return panel_rows * row_pitch() - panel_title - gap; }
  int panel_x(int p) const { return left + p % panel_columns * (panel_width() + gap); }
  int panel_y(int p) const { return top + p / panel_columns * row_pitch(); }
  int bar_x() const { return left + grid_width() + gap; }
  double pitch() const { return double(cell) / block; }  // pixels per value
};

/// The layout with the largest cells that fits; past one pixel per cell, with the smallest blocks.
HeatmapLayout lay_out(const HeatmapGrid& grid);

}  // namespace heed::plot
