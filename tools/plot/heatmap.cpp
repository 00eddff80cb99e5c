#include "tools/plot/heatmap.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/base/error.h"
#include "tools/plot/heatmap_layout.h"

namespace heed::plot {
namespace {

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
                      ", ", p.cols, "]; needs at least 1 row and column");
    check<ShapeError>(p.rows == first.rows && p.cols == first.cols, kOp,
                      "needs panels of one size, got ", first.title, " [", first.rows, ", ",
                      first.cols, "] and ", p.title, " [", p.rows, ", ", p.cols, "]");
    const auto check_cells = [&](std::size_t n, bool optional, const char* what) {
      const std::size_t cells = std::size_t(p.rows) * std::size_t(p.cols);
      check<ShapeError>(n == cells || (optional && n == 0), kOp, "panel ", p.title, " needs ",
                        cells, " ", what, optional ? " or none" : "", ", got ", n);
    };
    check_cells(p.values.size(), false, "values");
    check_cells(p.masked.size(), true, "marks of its mask");
  }
  const auto check_labels = [](const std::vector<std::string>& labels, int size, const char* what) {
    check<ShapeError>(labels.empty() || labels.size() == std::size_t(size), kOp, "needs one ", what,
                      " label for each of ", size, " ", what, "s or none, got ", labels.size());
  };
  check_labels(grid.row_labels, first.rows, "row");
  check_labels(grid.col_labels, first.cols, "column");
}

struct Cell {
  float value = std::numeric_limits<float>::infinity();
  bool masked = true;
};

// Returns the cell that represents the block whose top left cell is (row, col); see draw_heatmap.
Cell block_cell(const Panel& panel, int row, int col, int block) {
  Cell best;
  for (int r = row; r < std::min(row + block, panel.rows); ++r) {
    for (int c = col; c < std::min(col + block, panel.cols); ++c) {
      const auto i = std::size_t(r) * std::size_t(panel.cols) + std::size_t(c);
      const float v = panel.values[i];
      const bool masked = !panel.masked.empty() && panel.masked[i] != 0;
      if (masked && !best.masked) continue;
      if (!masked && std::isnan(v)) return {v, false};
      const bool first = best.masked && !masked;  // the first visible cell of the block
      if (first) best = {};
      best.masked = masked;
      if (!std::isinf(v) && (std::isinf(best.value) || std::abs(v) > std::abs(best.value)))
        best.value = v;
    }
  }
  return best;
}

// Draws the text of a cell at (x, y), if it fits.
void draw_cell_text(Canvas& canvas, const Layout& at, const std::string& text, int x, int y,
                    Rgb color) {
  if (text_width(text, at.number_size) > at.cell - 2) return;
  const int lightness = (2 * color.r + 7 * color.g + color.b) / 10;  // 0 to 255
  canvas.text(
      x + at.cell / 2, y + (at.cell - cap_height(at.number_size)) / 2, text,
      {.color = lightness < 128 ? kWhite : kInk, .size = at.number_size, .align = Align::kCenter});
}

void draw_cells(Canvas& canvas, const HeatmapGrid& grid, const Layout& at, int p) {
  const Panel& panel = grid.panels[std::size_t(p)];
  for (int row = 0; row < at.cells_high; ++row) {
    for (int col = 0; col < at.cells_wide; ++col) {
      const auto [v, masked] = block_cell(panel, row * at.block, col * at.block, at.block);
      const int x = at.panel_x(p) + col * at.cell, y = at.panel_y(p) + row * at.cell;
      const Rgb color = masked             ? kMaskedGray
                        : std::isfinite(v) ? at.colors.color(double(v))
                                           : kGray;
      canvas.rect(x, y, at.cell, at.cell, color);
      if (at.number_size > 0 && !masked)
        draw_cell_text(canvas, at, at.numbers.text(double(v)), x, y, color);
    }
  }
}

void draw_panel(Canvas& canvas, const HeatmapGrid& grid, const Layout& at, int p) {
  draw_cells(canvas, grid, at, p);
  const int x = at.panel_x(p), y = at.panel_y(p);
  canvas.frame(x - 1, y - 1, at.panel_width() + 2, at.panel_height() + 2, kInk);
  const int above = cap_height(at.text_size) + at.kLabelGap + 2;
  canvas.text(x + at.panel_width() / 2, y - above,
              shorten_text(at.panel_titles[std::size_t(p)], at.panel_width(), at.text_size),
              {.size = at.text_size, .align = Align::kCenter});
}

// Returns the style of text along a vertical axis.
TextStyle upward(const Layout& at) {
  return {.size = at.text_size, .align = Align::kCenter, .upward = true};
}

// Draws ticks, labels and the name of the axis at the left of panel p.
void draw_row_axis(Canvas& canvas, const Layout& at, int p) {
  const int x = at.panel_x(p) - 1, y = at.panel_y(p), line = line_height(at.text_size);
  for (int i = 0; i < int(at.rows.tokens.size()); ++i) {
    const int tick = y + int((i * at.rows.step + 0.5) * at.pitch());
    canvas.rect(x - at.kTick, tick, at.kTick, 1, kInk);
    at.rows.draw(canvas, i, x - at.kTick - at.kLabelGap, tick, false);
  }
  const int left =
      x - at.kTick - 2 * at.kLabelGap - at.rows.width() - int(at.row_axis.size()) * line;
  canvas.text_lines(left, y + at.panel_height() / 2, at.row_axis, at.panel_height(), upward(at));
}

// Draws ticks and labels below panel p.
void draw_column_axis(Canvas& canvas, const Layout& at, int p) {
  const int x = at.panel_x(p), bottom = at.panel_y(p) + at.panel_height() + 1;
  for (int i = 0; i < int(at.cols.tokens.size()); ++i) {
    const int tick = x + int((i * at.cols.step + 0.5) * at.pitch());
    canvas.rect(tick, bottom, 1, at.kTick, kInk);
    at.cols.draw(canvas, i, tick, bottom + at.kTick + at.kLabelGap, true);
  }
}

void draw_color_bar(Canvas& canvas, const Layout& at) {
  const int x = at.bar_x(), height = at.bar_height;
  const int y = at.top + std::max(0, at.grid_height() - height) / 2;
  const double first = at.colors.first(), range = at.colors.limit - first;
  for (int row = 0; row < height; ++row) {
    const double share = 1.0 - double(row) / (height - 1);
    canvas.rect(x, y + row, at.kBarWidth, 1, at.colors.color(first + share * range));
  }
  canvas.frame(x - 1, y - 1, at.kBarWidth + 2, height + 2, kInk);
  const int steps = int(at.bar_values.size()) - 1, right = x + at.kBarWidth + 1;
  for (int i = 0; i <= steps; ++i) {
    const int tick = y + (height - 1) * (steps - i) / steps;
    canvas.rect(right, tick, at.kTick, 1, kInk);
    canvas.text(right + at.kTick + at.kLabelGap, tick - cap_height(at.text_size) / 2,
                format_number(at.bar_values[std::size_t(i)]), {.size = at.text_size});
  }
  const int name = right + at.kTick + at.bar_numbers + 3 * at.kLabelGap;
  canvas.text_lines(name, y + height / 2, at.bar_name, height, upward(at));
}

// Draws the legend of cells that are not on the color bar (masked or not finite). Its first line is
// at y.
void draw_heatmap_legend(Canvas& canvas, const Layout& at, int y) {
  const int height = cap_height(at.text_size) + 2, x = at.kMargin;
  const int words = x + at.kSwatch + at.kLabelGap;
  for (const LegendLine& line : at.legend) {
    canvas.rect(x, y - 1, at.kSwatch, height,
                line.look == LegendLine::kMasked ? kMaskedGray : kGray);
    canvas.frame(x - 1, y - 2, at.kSwatch + 2, height + 2, kInk);
    canvas.text(words, y, shorten_text(line.text, at.width - words - at.kMargin, at.text_size),
                {.color = kMuted, .size = at.text_size});
    y += line_height(at.text_size);
  }
}

// Draws title, caption and legend above the panels, and the name of the column axis below them.
void draw_words(Canvas& canvas, const HeatmapGrid& grid, const Layout& at) {
  const int x = at.kMargin, width = at.width - 2 * at.kMargin;
  const int below = canvas.text_lines(x, at.kMargin, at.title, width, {.size = at.title_size});
  draw_heatmap_legend(
      canvas, at,
      canvas.text_lines(x, below, at.caption, width, {.color = kMuted, .size = at.text_size}));
  const int middle = at.left + at.grid_width() / 2;
  const int room = 2 * (std::min(middle, at.width - middle) - at.kMargin);
  canvas.text(middle, at.height - at.kMargin - cap_height(at.text_size) - int(at.text_size / 4),
              shorten_text(grid.col_axis, room, at.text_size),
              {.size = at.text_size, .align = Align::kCenter});
}

}  // namespace

void draw(const HeatmapGrid& grid, Canvas& canvas) {
  check_grid(grid);
  const Layout at = lay_out(grid);
  canvas.resize(at.width, at.height);
  const int panels = int(grid.panels.size());
  draw_words(canvas, grid, at);
  for (int p = 0; p < panels; ++p) {
    draw_panel(canvas, grid, at, p);
    if (p % at.panel_columns == 0) draw_row_axis(canvas, at, p);
    if (p + at.panel_columns >= panels) draw_column_axis(canvas, at, p);
  }
  draw_color_bar(canvas, at);
}

Image draw_heatmap(const HeatmapGrid& grid) {
  Image image;
  draw(grid, image);
  return image;
}

}  // namespace heed::plot
