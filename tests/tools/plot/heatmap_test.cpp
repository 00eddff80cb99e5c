// Tests of heat maps by their pixels: cells, colors, labels, and grids with more cells than pixels.
#include "autograd/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/pictures.h"
#include "tools/plot/color_range.h"
#include "tools/plot/plot.h"
#include "tools/plot/tick_labels.h"

namespace heed::plot {
namespace {

Panel panel(int rows, int cols, float value = 0) {
  return {"L0H0", rows, cols, std::vector<float>(std::size_t(rows) * std::size_t(cols), value)};
}

// Returns a grid with `layers` rows of `heads` panels each. A panel has length x length cells. The
// label of each position is `token`.
HeatmapGrid attention(int layers, int heads, int length, const std::string& token) {
  HeatmapGrid grid;
  grid.title = "Where each head looks: a task of some name, after 400 training steps";
  grid.caption = "L1H0 is head 0 of layer 1. Each row is one query's attention and sums to 1.";
  for (int p = 0; p < layers * heads; ++p) grid.panels.push_back(panel(length, length, 0.25f));
  grid.panel_columns = heads;
  grid.row_labels = grid.col_labels = std::vector<std::string>(std::size_t(length), token);
  grid.row_axis = "query: token that looks";
  grid.col_axis = "key: token looked at";
  grid.value_name = "attention weight";
  return grid;
}

}  // namespace

TEST_CASE("a heat map draws its cells in their colors, and NaN in gray", "[plot]") {
  HeatmapGrid grid{.panels = {panel(8, 8)}};
  grid.panels[0].values[9] = 2;
  constexpr int kCell = 56 * 56;
  const Image finite = draw_heatmap(grid);
  CHECK(count(finite, kGray) < 100);  // antialiased text has a few pixels of this gray
  CHECK(count(finite, viridis(0)) >= 62 * kCell);
  CHECK(count(finite, viridis(1)) >= kCell);

  grid.panels[0].values[3] = std::numeric_limits<float>::quiet_NaN();
  grid.panels[0].values[4] = -std::numeric_limits<float>::infinity();
  const Image holes = draw_heatmap(grid);
  CHECK(count(holes, kGray) >= 2 * kCell);
  CHECK(count(holes, kGray) < 2 * kCell + 600);  // two cells and the swatch of the legend
  CHECK(count(holes, viridis(0)) == count(finite, viridis(0)) - 2 * kCell);

  grid.scale = ColorScale::kDiverging;  // the limits are symmetric: 2 is orange, -2 is blue
  grid.panels[0].values[20] = -2;
  grid.panels[0].values[21] = -1;
  const Image signs = draw_heatmap(grid);
  CHECK(count(signs, diverging(1)) >= kCell);
  CHECK(count(signs, diverging(-1)) >= kCell);
  CHECK(count(signs, diverging(-0.5)) >= kCell);
}

TEST_CASE("a heat map can be drawn if all values are 0 or all are NaN", "[plot]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ColorScale scale : {ColorScale::kSequential, ColorScale::kDiverging}) {
    CHECK_NOTHROW(draw_heatmap({.panels = {panel(1, 1, 0)}, .scale = scale}));
    CHECK(count(draw_heatmap({.panels = {panel(2, 2, nan)}, .scale = scale}), kGray) >=
          4 * 56 * 56);
  }
}

TEST_CASE("masked cells are light gray", "[plot]") {
  constexpr int kCell = 56 * 56;
  HeatmapGrid grid{.panels = {panel(8, 8, 1)}};
  grid.panels[0].values[0] = 0.5f;
  std::vector<std::uint8_t>& masked = grid.panels[0].masked;
  masked.assign(64, 0);
  masked[1] = masked[2] = 1;
  grid.panels[0].values[1] = 100;  // masked, so it does not affect the scale
  grid.panels[0].values[2] = std::numeric_limits<float>::quiet_NaN();
  const Image gray = draw_heatmap(grid);
  CHECK(count(gray, kMaskedGray) >= 2 * kCell);
  CHECK(count(gray, kMaskedGray) < 2 * kCell + 500);  // two cells and the swatch of the legend
  CHECK(count(gray, viridis(1)) >= 61 * kCell);
  CHECK(count(gray, viridis(0.5)) >= kCell);
  CHECK(has_text(gray, "gray: masked"));

  grid.panels[0].values[3] = std::numeric_limits<float>::infinity();
  const Image both = draw_heatmap(grid);
  CHECK(count(both, kGray) >= kCell);
  CHECK(has_text(both, "dark gray: not finite"));
  CHECK(text_faults(both) == "");

  masked.pop_back();
  CHECK_THROWS_AS(draw_heatmap(grid), autograd::ShapeError);
}

TEST_CASE("a block is drawn as masked only if all of its cells are masked", "[plot]") {
  HeatmapGrid grid{.panels = {panel(4096, 4096, 1)}};
  std::vector<std::uint8_t>& masked = grid.panels[0].masked;
  masked.assign(grid.panels[0].values.size(), 0);
  const auto gray = [&] { return count(draw_heatmap(grid), kMaskedGray); };
  std::fill_n(masked.begin() + 4096, 4096, 1);  // masks row 1, which is half of each block
  const int with_legend = gray();
  CHECK(with_legend < 1500);  // the swatch of the legend and antialiased text
  for (std::size_t row = 8; row < 16; ++row)
    for (std::size_t col = 0; col < 4096; ++col) masked[row * 4096 + col] = 1;
  CHECK(gray() > with_legend + 1000);
}

TEST_CASE("the scale is linear up to a limit, and a panel with small values states this",
          "[plot]") {
  HeatmapGrid grid{.panel_columns = 2, .scale = ColorScale::kDiverging, .limit = 4};
  for (const float largest : {-2.0f, 0.09f, 0.06f, 0.0f}) {
    grid.panels.push_back(panel(4, 4));
    grid.panels.back().values[5] = largest;
  }
  grid.panels[3].values[6] = 100;
  grid.panels[3].masked.assign(16, 0);
  grid.panels[3].masked[6] = 1;
  const ColorRange range = color_range(grid);
  CHECK(range.limit == 4);
  CHECK(range.color(-2) == diverging(-0.5));
  CHECK(range.text() == "−4 to 4");
  const Image image = draw_heatmap(grid);
  int own = 0;  // titles of the panels that reach 2 % of the limit
  for (const TextBox& box : image.text_boxes()) own += box.text == "L0H0";
  CHECK(own == 2);
  const auto faint = [](const Image& drawn) {
    return std::count_if(drawn.text_boxes().begin(), drawn.text_boxes().end(),
                         [](const TextBox& box) { return box.text == "L0H0 (< 2 %)"; });
  };
  CHECK(faint(image) == 2);
  CHECK(has_text(image, "< 2 %: all values are below 2 % of the end of the scale."));
  CHECK(count(image, diverging(-0.5)) >= 50 * 50);
  CHECK(text_faults(image) == "");
  grid.limit.reset();  // then it is the largest visible magnitude
  CHECK(color_range(grid).limit == 2);
  grid.scale = ColorScale::kSequential;
  CHECK(color_range(grid).text() == "0 to 0.09");
  // The statement fits above the small panels of a picture with many heads, too.
  HeatmapGrid many = attention(3, 8, 48, "a");
  many.limit = 100;
  CHECK(faint(draw_heatmap(many)) == 24);
}

TEST_CASE("cells contain their numbers if these are large enough to read", "[plot]") {
  HeatmapGrid grid{.panels = {panel(3, 3)}, .scale = ColorScale::kDiverging, .print_values = true};
  grid.panels[0].values = {0, 0.5f, -0.126f, 1, -1, 0.004f, 0.25f, -0.001f, 0.1f};
  const Image small = draw_heatmap(grid);
  for (const char* number : {"0", "0.50", "−0.13", "1.00", "−1.00", "0.00", "0.25", "0.10"})
    CHECK(has_text(small, number));
  CHECK(text_faults(small) == "");
  for (float& v : grid.panels[0].values) v *= 3e-5f;
  const Image tiny = draw_heatmap(grid);
  CHECK(has_text(tiny, "−0.38"));  // in units of 10^-5; the caption states the unit
  CHECK(text_faults(tiny) == "");
  for (const int side : {30, 60}) {
    HeatmapGrid large{.panels = {panel(side, side, -0.5f)}, .print_values = true};
    const Image image = draw_heatmap(large);
    CHECK(has_text(image, "−0.50") == (side == 30));
    CHECK(has_text(image, "There are too many cells to print their values.") == (side == 60));
    CHECK(text_faults(image) == "");
    CHECK(image.width() <= 2400);
  }
}

TEST_CASE("a large grid shrinks to blocks that keep the extreme value", "[plot]") {
  HeatmapGrid grid{.panel_columns = 8, .scale = ColorScale::kDiverging};
  for (int p = 0; p < 64; ++p) grid.panels.push_back(panel(512, 512));
  const Image blank = draw_heatmap(grid);
  CHECK(blank.width() <= 2400);
  CHECK(blank.height() <= 2400);
  CHECK(blank.width() > 1200);
  grid.panels[63].values[511 * 512 + 7] = -4;  // one of 16.8 million values
  CHECK(count(draw_heatmap(grid), diverging(-1)) == count(blank, diverging(-1)) + 1);
}

TEST_CASE("labels are thinned until they fit", "[plot]") {
  CHECK(label_step(20, 16) == 1);
  CHECK(label_step(16, 16) == 1);
  CHECK(label_step(15, 16) == 2);
  CHECK(label_step(4, 26) == 10);
  CHECK(label_step(0.5, 26) == 100);
  for (const double pitch : {0.25, 1.0, 3.0, 7.5, 100.0})
    CHECK(label_step(pitch, 30) * pitch >= 30);
}

TEST_CASE("all text of a heat map is inside the picture, does not overlap, and is large enough",
          "[plot]") {
  struct Size {
    int layers, heads, length;
  };
  for (const auto& [layers, heads, length] :
       {Size{1, 1, 1}, Size{2, 2, 1}, Size{1, 8, 1}, Size{1, 1, 6}, Size{2, 2, 6}, Size{2, 2, 48},
        Size{1, 1, 32}, Size{8, 8, 64}, Size{4, 6, 256}, Size{1, 1, 512}, Size{1, 16, 9}}) {
    for (const char* token : {"a", "␣wonderful\n", "a very long token of several words"}) {
      for (const ColorScale scale : {ColorScale::kSequential, ColorScale::kDiverging}) {
        HeatmapGrid grid = attention(layers, heads, length, token);
        grid.scale = scale;
        if (scale == ColorScale::kDiverging)
          for (float& v : grid.panels[0].values) v = -1.234e-6f;
        INFO(layers << " x " << heads << ", T = " << length << ", " << token);
        const Image image = draw_heatmap(grid);
        CHECK(text_faults(image) == "");
        CHECK(image.width() <= 2400);
        CHECK(image.height() <= 2400);
        CHECK(has_text(image, "L0H0"));
        int axis_names = 0;  // should be one per row of panels; names may be wrapped
        for (const TextBox& box : image.text_boxes()) axis_names += box.text.starts_with("query:");
        CHECK(axis_names == layers);
      }
    }
  }
  // Panels that are not square, with texts that are too long to fit anywhere.
  const std::string words(300, 'w');
  for (const auto& [rows, cols] : {std::pair{1, 50}, std::pair{50, 1}, std::pair{3, 700}}) {
    HeatmapGrid grid{.title = words,
                     .caption = words,
                     .panels = {panel(rows, cols), panel(rows, cols)},
                     .panel_columns = 2,
                     .row_axis = words,
                     .col_axis = words,
                     .value_name = words,
                     .scale = ColorScale::kDiverging};
    grid.panels[0].title = words;
    INFO(rows << " x " << cols);
    CHECK(text_faults(draw_heatmap(grid)) == "");
  }
}

TEST_CASE("tokens without visible characters are shown as symbols on the axes", "[plot]") {
  HeatmapGrid grid{.panels = {panel(4, 4)}, .row_labels = {" ", "\n", "\xFF", "λ"}};
  const Image image = draw_heatmap(grid);
  for (const char* label : {"␣", "\\n", "\\xff", "λ", "0", "3"}) CHECK(has_text(image, label));
}

TEST_CASE("inconsistent sizes of a heat map throw an error", "[plot]") {
  const auto draw = [](std::vector<Panel> panels, int columns, std::vector<std::string> labels) {
    return draw_heatmap(
        {.panels = std::move(panels), .panel_columns = columns, .row_labels = std::move(labels)});
  };
  CHECK_THROWS_AS(draw({}, 1, {}), autograd::ValueError);
  CHECK_THROWS_AS(draw({panel(2, 2)}, 0, {}), autograd::ValueError);
  CHECK_THROWS_AS(draw({panel(0, 2)}, 1, {}), autograd::ShapeError);
  CHECK_THROWS_AS(draw({{"L0H0", 2, 2, {1, 2, 3}}}, 1, {}), autograd::ShapeError);
  CHECK(message_of([&] {
          draw({panel(2, 2), panel(2, 3)}, 1, {});
        }) == "heatmap: needs panels of one size, got L0H0 [2, 2] and L0H0 [2, 3]");
  CHECK(message_of([&] { draw({panel(2, 2)}, 1, {"a"}); }) ==
        "heatmap: needs one row label for each of 2 rows or none, got 1");
}

}  // namespace heed::plot
