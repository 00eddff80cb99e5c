#include "tools/plot/heatmap_layout.h"

#include <algorithm>
#include <cmath>

namespace heed::plot {
namespace {

constexpr int kMaxSide = 2400, kMinWidth = 680;
constexpr double kSmallText = 16.5;  // text size of a small picture

const std::string kFaint = " (< 2 %)";  // end of the title of a panel with small values

int longer_side(const HeatmapGrid& grid) {
  return std::max(grid.panels.front().rows, grid.panels.front().cols);
}

std::string full_caption(const HeatmapGrid& grid, const HeatmapLayout& at) {
  std::string text = grid.caption;
  const auto add = [&](const std::string& sentence) {
    text += (text.empty() ? "" : " ") + sentence;
  };
  const std::string side = std::to_string(at.block);
  if (at.block > 1)
    add("Each pixel shows the value of largest magnitude in a " + side + " x " + side + " block.");
  if (grid.print_values && at.number_size == 0)
    add("There are too many cells to print their values.");
  if (at.number_size > 0 && at.numbers.exponent != 0)
    add("The numbers in the cells are in units of " +
        typeset_number("1e" + std::to_string(at.numbers.exponent)) + ".");
  if (std::ranges::any_of(at.panel_titles, [](auto& title) { return title.ends_with(kFaint); }))
    add("< 2 %: all values are below 2 % of the end of the scale.");
  return text;
}

// Returns one line for each kind of cell that occurs in the grid and is not on the color bar.
std::vector<LegendLine> legend_of(const HeatmapGrid& grid) {
  bool masked = false, not_finite = false;
  for (const Panel& panel : grid.panels)
    for (std::size_t i = 0; i < panel.values.size(); ++i) {
      const bool hidden = !panel.masked.empty() && panel.masked[i] != 0;
      masked = masked || hidden;
      not_finite = not_finite || (!hidden && !std::isfinite(panel.values[i]));
    }
  std::vector<LegendLine> lines;
  if (masked) lines.push_back({LegendLine::kMasked, "gray: masked"});
  if (not_finite)
    lines.push_back(
        {LegendLine::kNotFinite, masked ? "dark gray: not finite" : "gray: not finite"});
  return lines;
}

// Computes the parts of the layout that do not depend on the size of the cells.
HeatmapLayout empty_layout(const HeatmapGrid& grid) {
  const int count = int(grid.panels.size());
  HeatmapLayout at;
  at.panel_columns = std::min(grid.panel_columns, count);
  at.panel_rows = (count + at.panel_columns - 1) / at.panel_columns;
  at.colors = color_range(grid);
  for (int halves = at.colors.first() < 0 ? -2 : 0; halves <= 2; ++halves)
    at.bar_values.push_back(at.colors.limit * halves / 2);
  at.legend = legend_of(grid);
  at.numbers = cell_numbers(*std::max_element(at.colors.largest.begin(), at.colors.largest.end()));
  for (std::size_t p = 0; p < grid.panels.size(); ++p) {
    const bool is_faint = count > 1 && at.colors.largest[p] < 0.02 * at.colors.limit;
    at.panel_titles.push_back(grid.panels[p].title + (is_faint ? kFaint : ""));
  }
  return at;
}

// Sets text sizes that grow with the width of the picture, because a page scales a wide picture
// down.
void set_text_sizes(HeatmapLayout& at) {
  at.text_size = std::clamp(at.panel_columns * at.panel_width() / 66.0, kSmallText, 27.5);
  at.title_size = at.text_size * 4 / 3;
  at.gap = int(1.15 * at.text_size);
}

void set_horizontal(HeatmapLayout& at, const HeatmapGrid& grid) {
  using L = HeatmapLayout;
  const int line = line_height(at.text_size);
  if (!grid.row_axis.empty())
    at.row_axis = wrap_text(grid.row_axis, at.panel_height(), at.text_size);
  at.bar_name = wrap_text(grid.value_name, at.bar_height, at.text_size);
  for (const double v : at.bar_values)
    at.bar_numbers = std::max(at.bar_numbers, text_width(format_number(v), at.text_size));
  at.left =
      L::kMargin + int(at.row_axis.size()) * line + at.rows.width() + 2 * L::kLabelGap + L::kTick;
  const int right = at.gap + L::kBarWidth + L::kTick + L::kLabelGap + at.bar_numbers +
                    (at.bar_name.empty() ? 0 : L::kLabelGap + int(at.bar_name.size()) * line) +
                    L::kMargin;
  const int content = at.left + at.grid_width() + right;
  const std::string caption = full_caption(grid, at);
  int words = std::max({text_width(grid.title, at.title_size), text_width(caption, at.text_size),
                        text_width(grid.col_axis, at.text_size)});
  for (const LegendLine& item : at.legend)
    words = std::max(words, L::kSwatch + L::kLabelGap + text_width(item.text, at.text_size));
  words += 2 * L::kMargin;
  at.width = std::max(content, std::min(kMinWidth, words));
  at.left += (at.width - content) / 2;
  at.title = wrap_text(grid.title, at.width - 2 * L::kMargin, at.title_size);
  at.caption = wrap_text(caption, at.width - 2 * L::kMargin, at.text_size);
}

void set_bar(HeatmapLayout& at) {
  constexpr int kLongestBar = 640;
  at.panel_title =
      text_width(at.panel_titles, at.text_size) > 0 ? line_height(at.text_size) + 2 : 0;
  // The bar is long enough that the numbers beside it do not overlap.
  const int numbers = line_height(at.text_size) * int(at.bar_values.size());
  at.bar_height = std::max(std::min(at.grid_height(), kLongestBar), numbers);
}

void set_vertical(HeatmapLayout& at, const HeatmapGrid& grid) {
  using L = HeatmapLayout;
  const int line = line_height(at.text_size), lines = int(at.caption.size() + at.legend.size());
  const int words = int(at.title.size()) * line_height(at.title_size) + lines * line;
  at.top = L::kMargin + words + (words > 0 ? at.gap : 0) + at.panel_title;
  at.height = at.top + std::max(at.grid_height(), at.bar_height) + L::kTick + L::kLabelGap +
              at.cols.depth(true) + (grid.col_axis.empty() ? 0 : L::kLabelGap + line) +
              int(at.text_size / 4) + L::kMargin;
}

constexpr int kLeast = 24;      // smallest width in pixels of a cell with a number
constexpr int kNumberRoom = 8;  // width in pixels that the number in a cell leaves free

// Returns the width in pixels of a cell in which a number of the smallest text size fits. Returns 0
// if numbers are not requested or if cells of that width do not fit.
int cell_for_numbers(const HeatmapGrid& grid, const HeatmapLayout& at) {
  constexpr int kWidest = 1800;
  if (!grid.print_values || kLeast * longer_side(grid) * at.panel_columns > kWidest) return 0;
  const int cell = at.numbers.width(grid, kSmallestText) + kNumberRoom;
  const int room = kWidest / (longer_side(grid) * at.panel_columns);
  return cell > room ? 0 : std::max(cell, kLeast);
}

void set_numbers(HeatmapLayout& at, int needed) {
  if (needed == 0 || at.cell < needed) return;
  const double grown = kSmallestText * double(at.cell - kNumberRoom) / (needed - kNumberRoom);
  at.number_size = std::clamp(grown, kSmallestText, at.text_size);
}

HeatmapLayout lay_out(HeatmapLayout at, const HeatmapGrid& grid, int cell, int block,
                      int for_numbers) {
  const Panel& first = grid.panels.front();
  at.cell = cell;
  at.block = block;
  at.cells_wide = (first.cols + block - 1) / block;
  at.cells_high = (first.rows + block - 1) / block;
  set_text_sizes(at);
  set_numbers(at, for_numbers);
  set_bar(at);
  at.rows = tick_labels(grid.row_labels, first.rows, at.pitch(), false, at.text_size);
  at.cols = tick_labels(grid.col_labels, first.cols, at.pitch(), true, at.text_size);
  set_horizontal(at, grid);
  set_vertical(at, grid);
  return at;
}

// Returns the width in pixels of the largest cell to try. Larger cells are not useful, because a
// page would shrink the picture.
int first_cell(const HeatmapGrid& grid, const HeatmapLayout& at) {
  constexpr int kGrid = 1100, kPanel = 560, kSmallPanel = 224, kLeastPanel = 170;
  const int longer = longer_side(grid);
  const int room = grid.print_values ? kGrid : kPanel;
  const int side = std::clamp(kGrid / at.panel_columns, kSmallPanel, room);
  const int largest = grid.print_values ? 92 : 56;
  const int cell = std::clamp(side / longer, 2, largest);
  const int least =
      std::max(kLeastPanel, std::min(text_width(at.panel_titles, kSmallText) + 8, kPanel));
  return std::max(cell, (least + longer - 1) / longer);
}

}  // namespace

HeatmapLayout lay_out(const HeatmapGrid& grid) {
  const HeatmapLayout empty = empty_layout(grid);
  const int longer = longer_side(grid), for_numbers = cell_for_numbers(grid, empty);
  int cell = std::max({first_cell(grid, empty), for_numbers, for_numbers > 0 ? kLeast : 0}),
      block = 1;
  for (;;) {
    HeatmapLayout at = lay_out(empty, grid, cell, block, for_numbers);
    if ((at.width <= kMaxSide && at.height <= kMaxSide) || block >= longer) return at;
    cell > 1 ? --cell : ++block;
  }
}

}  // namespace heed::plot
