#include "tools/plot/heatmap_layout.h"

#include <algorithm>
#include <cmath>

namespace heed::plot {
namespace {

constexpr int kMaxSide = 2400, kMinWidth = 680;

std::string full_caption(const HeatmapGrid& grid, bool gray, int block) {
  std::string text = grid.caption;
  const auto add = [&](const std::string& sentence) {
    text += (text.empty() ? "" : " ") + sentence;
  };
  const std::string side = std::to_string(block);
  if (block > 1)
    add("Each pixel shows the value of largest magnitude in a " + side + " x " + side + " block.");
  if (gray) add("Gray: " + grid.gray + ".");
  return text;
}

int widest_title(const HeatmapGrid& grid, double size) {
  int width = 0;
  for (const Panel& panel : grid.panels) width = std::max(width, text_width(panel.title, size));
  return width;
}

// What does not depend on the size of the cells.
HeatmapLayout empty_layout(const HeatmapGrid& grid) {
  const int count = int(grid.panels.size());
  HeatmapLayout at;
  at.panel_columns = std::min(grid.panel_columns, count);
  at.panel_rows = (count + at.panel_columns - 1) / at.panel_columns;
  const bool diverging = grid.scale == ColorScale::kDiverging;
  float largest = 0;
  for (const Panel& panel : grid.panels) {
    for (const float v : panel.values) {
      if (std::isfinite(v))
        largest = std::max(largest, diverging ? std::abs(v) : v);
      else
        at.gray = true;
    }
  }
  const double limit = at.limit = largest > 0 ? double(largest) : 1.0;
  at.bar_values = diverging ? std::vector{-limit, -limit / 4, 0.0, limit / 4, limit}
                            : std::vector{0.0, limit / 2, limit};
  return at;
}

// The text grows with the picture: pages show a wide one smaller.
void set_text_sizes(HeatmapLayout& at) {
  at.text_size = std::clamp(at.panel_columns * at.panel_width() / 66.0, 16.5, 27.5);
  at.title_size = at.text_size * 4 / 3;
  at.gap = int(1.15 * at.text_size);
}

void set_horizontal(HeatmapLayout& at, const HeatmapGrid& grid) {
  using L = HeatmapLayout;
  const int line = line_height(at.text_size);
  if (!grid.row_axis.empty())
    at.row_axis = wrap_text(grid.row_axis, at.panel_height(), at.text_size);
  for (const double v : at.bar_values)
    at.bar_numbers = std::max(at.bar_numbers, text_width(format_number(v), at.text_size));
  at.left =
      L::kMargin + int(at.row_axis.size()) * line + at.rows.width() + 2 * L::kLabelGap + L::kTick;
  const int right = at.gap + L::kBarWidth + L::kTick + L::kLabelGap + at.bar_numbers +
                    (grid.value_name.empty() ? 0 : L::kLabelGap + line) + L::kMargin;
  const int content = at.left + at.grid_width() + right;
  const std::string caption = full_caption(grid, at.gray, at.block);
  const int words =
      std::max({text_width(grid.title, at.title_size), text_width(caption, at.text_size),
                text_width(grid.col_axis, at.text_size)}) +
      2 * L::kMargin;
  at.width = std::max(content, std::min(kMinWidth, words));
  at.left += (at.width - content) / 2;
  at.title = wrap_text(grid.title, at.width - 2 * L::kMargin, at.title_size);
  at.caption = wrap_text(caption, at.width - 2 * L::kMargin, at.text_size);
}

void set_vertical(HeatmapLayout& at, const HeatmapGrid& grid) {
  using L = HeatmapLayout;
  constexpr int kLongestBar = 640;
  const int line = line_height(at.text_size);
  at.panel_title = widest_title(grid, at.text_size) > 0 ? line + 2 : 0;
  at.top = L::kMargin + int(at.title.size()) * line_height(at.title_size) +
           int(at.caption.size()) * line + (at.title.empty() && at.caption.empty() ? 0 : at.gap) +
           at.panel_title;
  const int numbers = line * int(at.bar_values.size());  // they must not overlap
  at.bar_height = std::max(std::min(at.grid_height(), kLongestBar), numbers);
  at.height = at.top + std::max(at.grid_height(), at.bar_height) + L::kTick + L::kLabelGap +
              at.cols.depth(true) + (grid.col_axis.empty() ? 0 : L::kLabelGap + line) +
              int(at.text_size / 4) + L::kMargin;
}

HeatmapLayout lay_out(HeatmapLayout at, const HeatmapGrid& grid, int cell, int block) {
  const Panel& first = grid.panels.front();
  at.cell = cell;
  at.block = block;
  at.cells_wide = (first.cols + block - 1) / block;
  at.cells_high = (first.rows + block - 1) / block;
  set_text_sizes(at);
  at.rows = tick_labels(grid.row_labels, first.rows, at.pitch(), false, at.text_size);
  at.cols = tick_labels(grid.col_labels, first.cols, at.pitch(), true, at.text_size);
  set_horizontal(at, grid);
  set_vertical(at, grid);
  return at;
}

// In pixels. Larger pictures only shrink on the page.
int first_cell(const HeatmapGrid& grid, const HeatmapLayout& at) {
  constexpr int kGrid = 1100, kPanel = 560, kSmallPanel = 224, kLargestCell = 56, kLeastPanel = 170;
  const int longer = std::max(grid.panels.front().rows, grid.panels.front().cols);
  const int side = std::clamp(kGrid / at.panel_columns, kSmallPanel, kPanel);
  const int cell = std::clamp(side / longer, 2, kLargestCell);
  const int least = std::max(kLeastPanel, std::min(widest_title(grid, 16.5) + 8, kPanel));
  return std::max(cell, (least + longer - 1) / longer);
}

}  // namespace

HeatmapLayout lay_out(const HeatmapGrid& grid) {
  const HeatmapLayout empty = empty_layout(grid);
  const int longer = std::max(grid.panels.front().rows, grid.panels.front().cols);
  int cell = first_cell(grid, empty), block = 1;
  for (;;) {
    HeatmapLayout at = lay_out(empty, grid, cell, block);
    if ((at.width <= kMaxSide && at.height <= kMaxSide) || block >= longer) return at;
    cell > 1 ? --cell : ++block;
  }
}

}  // namespace heed::plot
