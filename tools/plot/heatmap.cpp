#include "tools/plot/heatmap.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/base/error.h"
#include "tools/plot/colormap.h"
#include "tools/plot/heatmap_layout.h"

namespace heed::plot {
namespace {

using autograd::check;
using autograd::ShapeError;
using autograd::ValueError;
using Layout = HeatmapLayout;

void check_grid(const HeatmapGrid& grid) {
  constexpr const char* kOp = "heatmap";
  check<ValueError>(!grid.panels.empty(), kOp, "needs at least one panel, got none");
  check<ValueError>(grid.panel_columns >= 1, kOp, "needs panel_columns >= 1, got ",
                    grid.panel_columns);
  const Panel& first = grid.panels.front();
  for (const Panel& p : grid.panels) {
    check<ShapeError>(p.rows >= 1 && p.cols >= 1, kOp, "panel ", p.title, " is empty: [", p.rows,
                      ", ", p.cols, "]");
    check<ShapeError>(p.rows == first.rows && p.cols == first.cols, kOp,
                      "needs panels of one size, got ", first.title, " [", first.rows, ", ",
                      first.cols, "] and ", p.title, " [", p.rows, ", ", p.cols, "]");
    check<ShapeError>(p.values.size() == std::size_t(p.rows) * std::size_t(p.cols), kOp, "panel ",
                      p.title, " [", p.rows, ", ", p.cols, "] has ", p.values.size(), " values");
  }
  const auto check_labels = [](const std::vector<std::string>& labels, int size, const char* what) {
    check<ShapeError>(labels.empty() || labels.size() == std::size_t(size), kOp, "needs one ", what,
                      " label for each of ", size, " ", what, "s or none, got ", labels.size());
  };
  check_labels(grid.row_labels, first.rows, "row");
  check_labels(grid.col_labels, first.cols, "column");
}

// Where a value, as a part of the limit, lies on the color bar: 0 to 1, or -1 to 1.
double bar_position(ColorScale scale, double part) {
  return scale == ColorScale::kDiverging ? std::copysign(std::sqrt(std::abs(part)), part) : part;
}

Rgb color_at(ColorScale scale, double position) {
  return scale == ColorScale::kDiverging ? diverging(position) : viridis(position);
}

// The value that stands for the block at (row, col); see draw_heatmap.
float block_value(const Panel& panel, int row, int col, int block) {
  float best = std::numeric_limits<float>::infinity();
  for (int r = row; r < std::min(row + block, panel.rows); ++r) {
    const float* values = panel.values.data() + std::ptrdiff_t(r) * panel.cols;
    for (int c = col; c < std::min(col + block, panel.cols); ++c) {
      if (std::isnan(values[c])) return values[c];
      if (std::isinf(values[c])) continue;
      if (std::isinf(best) || std::abs(values[c]) > std::abs(best)) best = values[c];
    }
  }
  return best;
}

void draw_cells(Image& image, const HeatmapGrid& grid, const Layout& at, int p) {
  const Panel& panel = grid.panels[std::size_t(p)];
  const int x = at.panel_x(p), y = at.panel_y(p);
  for (int row = 0; row < at.cells_high; ++row) {
    for (int col = 0; col < at.cells_wide; ++col) {
      const float v = block_value(panel, row * at.block, col * at.block, at.block);
      const double part = double(v) / at.limit;
      const Rgb color =
          std::isfinite(v) ? color_at(grid.scale, bar_position(grid.scale, part)) : kGray;
      image.rect(x + col * at.cell, y + row * at.cell, at.cell, at.cell, color);
    }
  }
  image.frame(x - 1, y - 1, at.panel_width() + 2, at.panel_height() + 2, kInk);
  const int above = cap_height(at.text_size) + at.kLabelGap + 2;
  image.text(x + at.panel_width() / 2, y - above,
             shorten_text(panel.title, at.panel_width(), at.text_size),
             {.size = at.text_size, .align = Align::kCenter});
}

// Ticks, tokens and the axis' name at the left of panel p.
void draw_row_axis(Image& image, const Layout& at, int p) {
  const int x = at.panel_x(p) - 1, y = at.panel_y(p), line = line_height(at.text_size);
  for (int i = 0; i < int(at.rows.tokens.size()); ++i) {
    const int tick = y + int((i * at.rows.step + 0.5) * at.pitch());
    image.rect(x - at.kTick, tick, at.kTick, 1, kInk);
    at.rows.draw(image, i, x - at.kTick - at.kLabelGap, tick, false);
  }
  int left = x - at.kTick - 2 * at.kLabelGap - at.rows.width() - int(at.row_axis.size()) * line;
  for (const std::string& words : at.row_axis) {
    image.text(left, y + at.panel_height() / 2,
               shorten_text(words, at.panel_height(), at.text_size),
               {.size = at.text_size, .align = Align::kCenter, .upward = true});
    left += line;
  }
}

// Ticks and tokens below panel p.
void draw_column_axis(Image& image, const Layout& at, int p) {
  const int x = at.panel_x(p), bottom = at.panel_y(p) + at.panel_height() + 1;
  for (int i = 0; i < int(at.cols.tokens.size()); ++i) {
    const int tick = x + int((i * at.cols.step + 0.5) * at.pitch());
    image.rect(tick, bottom, 1, at.kTick, kInk);
    at.cols.draw(image, i, tick, bottom + at.kTick + at.kLabelGap, true);
  }
}

void draw_color_bar(Image& image, const HeatmapGrid& grid, const Layout& at) {
  const int x = at.bar_x(), height = at.bar_height;
  const int y = at.top + std::max(0, at.grid_height() - height) / 2;
  const double lowest = bar_position(grid.scale, at.bar_values.front() / at.limit);
  for (int row = 0; row < height; ++row) {
    const double share = 1.0 - double(row) / (height - 1);
    image.rect(x, y + row, at.kBarWidth, 1, color_at(grid.scale, lowest + share * (1 - lowest)));
  }
  image.frame(x - 1, y - 1, at.kBarWidth + 2, height + 2, kInk);
  const int steps = int(at.bar_values.size()) - 1, right = x + at.kBarWidth + 1;
  for (int i = 0; i <= steps; ++i) {
    const int tick = y + (height - 1) * (steps - i) / steps;
    image.rect(right, tick, at.kTick, 1, kInk);
    image.text(right + at.kTick + at.kLabelGap, tick - cap_height(at.text_size) / 2,
               format_number(at.bar_values[std::size_t(i)]), {.size = at.text_size});
  }
  const int name = right + at.kTick + at.bar_numbers + 3 * at.kLabelGap;
  image.text(name, y + height / 2, shorten_text(grid.value_name, height, at.text_size),
             {.size = at.text_size, .align = Align::kCenter, .upward = true});
}

// Title and caption above the panels, the name of the columns' axis below them.
void draw_words(Image& image, const HeatmapGrid& grid, const Layout& at) {
  const int x = at.kMargin, width = at.width - 2 * at.kMargin;
  const int below = image.text_lines(x, at.kMargin, at.title, width, {.size = at.title_size});
  image.text_lines(x, below, at.caption, width, {.color = kMuted, .size = at.text_size});
  const int middle = at.left + at.grid_width() / 2;
  const int room = 2 * (std::min(middle, at.width - middle) - at.kMargin);
  image.text(middle, at.height - at.kMargin - cap_height(at.text_size) - int(at.text_size / 4),
             shorten_text(grid.col_axis, room, at.text_size),
             {.size = at.text_size, .align = Align::kCenter});
}

}  // namespace

Image draw_heatmap(const HeatmapGrid& grid) {
  check_grid(grid);
  const Layout at = lay_out(grid);
  Image image(at.width, at.height);
  const int panels = int(grid.panels.size());
  draw_words(image, grid, at);
  for (int p = 0; p < panels; ++p) {
    draw_cells(image, grid, at, p);
    if (p % at.panel_columns == 0) draw_row_axis(image, at, p);
    if (p + at.panel_columns >= panels) draw_column_axis(image, at, p);
  }
  draw_color_bar(image, grid, at);
  return image;
}

}  // namespace heed::plot
