#include "tools/plot/heatmap.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/base/error.h"
#include "tools/plot/colormap.h"

namespace heed::plot {
namespace {

using autograd::check;
using autograd::ShapeError;
using autograd::ValueError;

constexpr int kMaxSide = 2400, kMinWidth = 480, kMargin = 24, kGap = 18;
constexpr int kText = 2, kTitle = 3;  // text scales
constexpr int kCap = kCapHeight * kText, kLine = kLineHeight * kText;
constexpr int kTick = 5, kLabelGap = 6, kBarWidth = 22;
constexpr std::size_t kLabelCharacters = 12;

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
  const auto labels_fit = [](const std::vector<std::string>& labels, int size) {
    return labels.empty() || labels.size() == std::size_t(size);
  };
  check<ShapeError>(labels_fit(grid.row_labels, first.rows), kOp,
                    "needs one row label for each of ", first.rows, " rows or none, got ",
                    grid.row_labels.size());
  check<ShapeError>(labels_fit(grid.col_labels, first.cols), kOp,
                    "needs one column label for each of ", first.cols, " columns or none, got ",
                    grid.col_labels.size());
}

// The labels of one axis as they are drawn: every step-th, "position:token" once some are left out.
struct AxisLabels {
  int step = 1;
  bool upward = false;
  std::vector<std::string> text;  // of positions 0, step, 2 step, ...
  int longest = 0;                // pixels
};

AxisLabels axis_labels(const std::vector<std::string>& tokens, int size, double pitch,
                       bool horizontal) {
  constexpr int kAll = kCap + 4, kThinned = kCap + 12;  // pixels that a line of text needs
  std::vector<std::string> all;
  int longest = 0;
  for (int i = 0; i < size; ++i) {
    const bool blank = !tokens.empty() && tokens[std::size_t(i)] == " ";
    all.push_back(tokens.empty() ? std::to_string(i)
                  : blank        ? "\\s"
                                 : shorten_text(tokens[std::size_t(i)], kLabelCharacters));
    longest = std::max(longest, text_width(all.back(), kText));
  }
  const int flat_extent = longest + (tokens.empty() ? 14 : 6);
  AxisLabels labels;
  // Along the x axis text lies flat when it fits; numbers may be thinned for that, tokens may not.
  const bool flat = horizontal && (tokens.empty() || flat_extent <= pitch);
  labels.upward = horizontal && !flat;
  const int extent = flat ? flat_extent : pitch >= kAll ? kAll : kThinned;
  labels.step = label_step(pitch, extent);
  for (int i = 0; i < size; i += labels.step) {
    const std::string& token = all[std::size_t(i)];
    const bool bare = tokens.empty() || labels.step == 1;
    labels.text.push_back(bare ? token : std::to_string(i) + ":" + token);
    labels.longest = std::max(labels.longest, text_width(labels.text.back(), kText));
  }
  return labels;
}

double value_limit(const HeatmapGrid& grid) {
  float limit = 0;
  for (const Panel& panel : grid.panels) {
    for (const float v : panel.values) {
      if (std::isfinite(v)) {
        limit = std::max(limit, grid.scale == ColorScale::kDiverging ? std::abs(v) : v);
      }
    }
  }
  return limit > 0 ? double(limit) : 1.0;
}

bool has_non_finite(const HeatmapGrid& grid) {
  return std::any_of(grid.panels.begin(), grid.panels.end(), [](const Panel& panel) {
    return std::any_of(panel.values.begin(), panel.values.end(),
                       [](float v) { return !std::isfinite(v); });
  });
}

// Where a value, as a part of the limit, lies on the color bar: 0 to 1, or -1 to 1.
double bar_position(ColorScale scale, double part) {
  return scale == ColorScale::kDiverging ? std::copysign(std::sqrt(std::abs(part)), part) : part;
}

Rgb color_at(ColorScale scale, double position) {
  return scale == ColorScale::kDiverging ? diverging(position) : viridis(position);
}

// Where everything goes, in pixels.
struct Layout {
  int cell = 1, block = 1;  // a square of `cell` pixels stands for block x block values
  int cells_wide = 0, cells_high = 0;
  int panel_columns = 0, panel_rows = 0, panel_title = 0;
  int left = 0, top = 0;  // of the first panel's cells
  int width = 0, height = 0;
  AxisLabels rows, cols;
  std::vector<std::string> title, caption;
  double limit = 1;

  int panel_width() const { return cells_wide * cell; }
  int panel_height() const { return cells_high * cell; }
  int grid_width() const { return panel_columns * (panel_width() + kGap) - kGap; }
  int grid_height() const {
    return panel_rows * (panel_height() + panel_title + kGap) - panel_title - kGap;
  }
  int panel_x(int p) const { return left + p % panel_columns * (panel_width() + kGap); }
  int panel_y(int p) const {
    return top + p / panel_columns * (panel_height() + panel_title + kGap);
  }
  double pitch() const { return double(cell) / block; }  // pixels per value
};

// The numbers at the color bar, evenly spaced on it.
std::vector<double> bar_values(const HeatmapGrid& grid, double limit) {
  if (grid.scale == ColorScale::kDiverging) return {-limit, -limit / 4, 0, limit / 4, limit};
  return {0, limit / 2, limit};
}

Layout lay_out(const HeatmapGrid& grid, const std::string& caption, double limit, int cell,
               int block) {
  const Panel& first = grid.panels.front();
  const int count = int(grid.panels.size());
  Layout at;
  at.cell = cell;
  at.block = block;
  at.limit = limit;
  at.cells_wide = (first.cols + block - 1) / block;
  at.cells_high = (first.rows + block - 1) / block;
  at.panel_columns = std::min(grid.panel_columns, count);
  at.panel_rows = (count + at.panel_columns - 1) / at.panel_columns;
  at.rows = axis_labels(grid.row_labels, first.rows, at.pitch(), false);
  at.cols = axis_labels(grid.col_labels, first.cols, at.pitch(), true);
  const bool titled = std::any_of(grid.panels.begin(), grid.panels.end(),
                                  [](const Panel& p) { return !p.title.empty(); });
  at.panel_title = titled ? kLine : 0;

  int numbers = 0;
  for (const double v : bar_values(grid, limit)) {
    numbers = std::max(numbers, text_width(format_number(v), kText));
  }
  at.left = kMargin + (grid.row_axis.empty() ? 0 : kLine) + at.rows.longest + kLabelGap + kTick;
  const int right = kGap + kBarWidth + kTick + kLabelGap + numbers + kMargin;
  const int content = at.left + at.grid_width() + right;
  const int title = text_width(grid.title, kTitle) + 2 * kMargin;
  at.width = std::max(content, std::min(kMinWidth, title));
  at.left += (at.width - content) / 2;
  at.title = wrap_text(visible_text(grid.title), at.width - 2 * kMargin, kTitle);
  std::string notes = caption;
  if (block > 1) {
    const std::string side = std::to_string(block);
    notes = "Each pixel shows the value of largest magnitude in a " + side + " x " + side +
            " block. " + notes;
  }
  at.caption = wrap_text(notes, at.width - 2 * kMargin, kText);

  at.top = kMargin + int(at.title.size()) * kLineHeight * kTitle + at.panel_title;
  at.height = at.top + at.grid_height() + kTick + kLabelGap +
              (at.cols.upward ? at.cols.longest : kTextHeight * kText) +
              (grid.col_axis.empty() ? 0 : kLabelGap + kLine) +
              (at.caption.empty() ? 0 : kLabelGap + int(at.caption.size()) * kLine) + kMargin;
  return at;
}

// The layout with the largest cells that fits; past one pixel per cell, with the smallest blocks.
Layout best_layout(const HeatmapGrid& grid) {
  const double limit = value_limit(grid);
  const std::string caption = has_non_finite(grid) ? "Gray: not finite." : "";
  const int longer = std::max(grid.panels.front().rows, grid.panels.front().cols);
  // Panels of about 640 pixels keep the text readable when the picture is scaled to a page.
  constexpr int kPanelSide = 640, kLeastCell = 2, kMostCell = 48;
  int cell = std::clamp(kPanelSide / longer, kLeastCell, kMostCell), block = 1;
  for (;;) {
    Layout layout = lay_out(grid, caption, limit, cell, block);
    if ((layout.width <= kMaxSide && layout.height <= kMaxSide) || block >= longer) return layout;
    cell > 1 ? --cell : ++block;
  }
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

void draw_panel(Image& image, const HeatmapGrid& grid, const Layout& at, int p) {
  const Panel& panel = grid.panels[std::size_t(p)];
  const int x = at.panel_x(p), y = at.panel_y(p), width = at.panel_width();
  const auto characters = std::size_t(width / (kCapHeight * kText));
  image.text(x + width / 2, y - kCap - kLabelGap - 1, shorten_text(panel.title, characters),
             {.scale = kText, .align = Align::kCenter});
  for (int row = 0; row < at.cells_high; ++row) {
    for (int col = 0; col < at.cells_wide; ++col) {
      const float v = block_value(panel, row * at.block, col * at.block, at.block);
      const double part = double(v) / at.limit;
      const Rgb color =
          std::isfinite(v) ? color_at(grid.scale, bar_position(grid.scale, part)) : kGray;
      image.rect(x + col * at.cell, y + row * at.cell, at.cell, at.cell, color);
    }
  }
  image.frame(x - 1, y - 1, width + 2, at.panel_height() + 2, kInk);

  const auto center = [&](int i, int step) { return int((i * step + 0.5) * at.pitch()); };
  if (p % at.panel_columns == 0) {
    for (int i = 0; i < int(at.rows.text.size()); ++i) {
      const int tick = y + center(i, at.rows.step);
      image.rect(x - 1 - kTick, tick, kTick, 1, kInk);
      image.text(x - 1 - kTick - kLabelGap, tick - kCap / 2, at.rows.text[std::size_t(i)],
                 {.align = Align::kRight});
    }
  }
  if (p + at.panel_columns >= int(grid.panels.size())) {
    const int bottom = y + at.panel_height() + 1;
    for (int i = 0; i < int(at.cols.text.size()); ++i) {
      const int tick = x + center(i, at.cols.step);
      const std::string& text = at.cols.text[std::size_t(i)];
      image.rect(tick, bottom, 1, kTick, kInk);
      if (at.cols.upward) {
        image.text(tick - kCap / 2, bottom + kTick + kLabelGap, text,
                   {.align = Align::kRight, .upward = true});
      } else {
        image.text(tick + 1, bottom + kTick + kLabelGap, text, {.align = Align::kCenter});
      }
    }
  }
}

void draw_color_bar(Image& image, const HeatmapGrid& grid, const Layout& at) {
  constexpr int kLongest = 640;
  const int x = at.left + at.grid_width() + kGap;
  const int height = std::min(at.grid_height(), kLongest);
  const int y = at.top + (at.grid_height() - height) / 2;
  const std::vector<double> values = bar_values(grid, at.limit);
  const double lowest = bar_position(grid.scale, values.front() / at.limit);
  for (int row = 0; row < height; ++row) {
    const double share = height > 1 ? 1.0 - double(row) / (height - 1) : 1.0;
    image.rect(x, y + row, kBarWidth, 1, color_at(grid.scale, lowest + share * (1 - lowest)));
  }
  image.frame(x - 1, y - 1, kBarWidth + 2, height + 2, kInk);
  const int steps = int(values.size()) - 1;
  for (int i = 0; i <= steps; ++i) {
    const int tick = y + (height - 1) * (steps - i) / steps;
    image.rect(x + kBarWidth + 1, tick, kTick, 1, kInk);
    image.text(x + kBarWidth + 1 + kTick + kLabelGap, tick - kCap / 2,
               format_number(values[std::size_t(i)]));
  }
}

}  // namespace

int label_step(double pitch, int extent) {
  int decade = 1;
  for (;; decade *= 10) {
    for (const int factor : {1, 2, 5}) {
      const int step = factor * decade;
      if (step * pitch >= extent || step >= 100'000'000) return step;
    }
  }
}

Image draw_heatmap(const HeatmapGrid& grid) {
  check_grid(grid);
  const Layout at = best_layout(grid);
  Image image(at.width, at.height);
  int y = kMargin;
  for (const std::string& line : at.title) {
    image.text(at.width / 2, y, line, {.scale = kTitle, .align = Align::kCenter});
    y += kLineHeight * kTitle;
  }
  for (int p = 0; p < int(grid.panels.size()); ++p) draw_panel(image, grid, at, p);
  draw_color_bar(image, grid, at);
  image.text(at.left - at.rows.longest - kLabelGap - kTick - kLine, at.top + at.grid_height() / 2,
             grid.row_axis, {.align = Align::kCenter, .upward = true});

  y = at.height - kMargin - int(at.caption.size()) * kLine;
  image.text(at.left + at.grid_width() / 2, y - kLine - (at.caption.empty() ? 0 : kLabelGap) + 6,
             grid.col_axis, {.align = Align::kCenter});
  for (const std::string& line : at.caption) {
    image.text(kMargin, y + kLabelGap, line);
    y += kLine;
  }
  return image;
}

}  // namespace heed::plot
