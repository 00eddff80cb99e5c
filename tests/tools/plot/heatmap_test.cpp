// Heat maps by pixel: cells, colors, labels, and grids larger than the picture.
#include "tools/plot/heatmap.h"

#include <limits>
#include <string>
#include <vector>

#include "autograd/base/error.h"
#include "tests/support/catch.h"
#include "tests/support/pictures.h"
#include "tools/plot/colormap.h"

namespace heed::plot {
namespace {

Panel panel(int rows, int cols, float value = 0) {
  return {"L0H0", rows, cols, std::vector<float>(std::size_t(rows) * std::size_t(cols), value)};
}

}  // namespace

TEST_CASE("a heat map shows its cells, NaN in gray", "[plot]") {
  HeatmapGrid grid{"", {panel(8, 8)}, 1, {}, {}, "", "", ColorScale::kSequential};
  grid.panels[0].values[9] = 2;
  constexpr int kCell = 48 * 48;
  const Image finite = draw_heatmap(grid);
  CHECK(count(finite, kGray) < 100);  // smooth text has a few pixels of that gray
  CHECK(count(finite, viridis(0)) >= 62 * kCell);
  CHECK(count(finite, viridis(1)) >= kCell);

  grid.panels[0].values[3] = std::numeric_limits<float>::quiet_NaN();
  grid.panels[0].values[4] = -std::numeric_limits<float>::infinity();
  const Image holes = draw_heatmap(grid);
  CHECK(count(holes, kGray) >= 2 * kCell);
  CHECK(count(holes, kGray) < 2 * kCell + 200);
  CHECK(count(holes, viridis(0)) == count(finite, viridis(0)) - 2 * kCell);

  grid.scale = ColorScale::kDiverging;  // symmetric: 2 is the end of the orange side
  grid.panels[0].values[20] = -2;
  grid.panels[0].values[21] = -0.5;  // by the root: a quarter of the limit is half way
  const Image signs = draw_heatmap(grid);
  CHECK(count(signs, diverging(1)) >= kCell);
  CHECK(count(signs, diverging(-1)) >= kCell);
  CHECK(count(signs, diverging(-0.5)) >= kCell);
}

TEST_CASE("a heat map of zeros or NaN alone still draws", "[plot]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ColorScale scale : {ColorScale::kSequential, ColorScale::kDiverging}) {
    CHECK_NOTHROW(draw_heatmap({"", {panel(1, 1, 0)}, 1, {}, {}, "q", "k", scale}));
    CHECK(count(draw_heatmap({"", {panel(2, 2, nan)}, 1, {}, {}, "q", "k", scale}), kGray) >=
          4 * 48 * 48);
  }
}

TEST_CASE("a large grid shrinks to blocks that keep the extreme value", "[plot]") {
  HeatmapGrid grid{"", {}, 8, {}, {}, "query", "key", ColorScale::kDiverging};
  for (int p = 0; p < 64; ++p) grid.panels.push_back(panel(512, 512));
  const Image blank = draw_heatmap(grid);
  CHECK(blank.width() <= 2400);
  CHECK(blank.height() <= 2400);
  CHECK(blank.width() > 1200);
  grid.panels[63].values[511 * 512 + 7] = -4;  // one value of 16.8 million
  CHECK(count(draw_heatmap(grid), diverging(-1)) == count(blank, diverging(-1)) + 1);

  // One NaN makes one pixel gray: moving it to another panel changes two.
  const auto with_nan = [&](std::size_t p) {
    HeatmapGrid other = grid;
    other.panels[p].values[77] = std::numeric_limits<float>::quiet_NaN();
    return draw_heatmap(other);
  };
  const Image one = with_nan(5), another = with_nan(40);
  REQUIRE(one.width() == another.width());
  int changed = 0;
  for (int y = 0; y < one.height(); ++y) {
    for (int x = 0; x < one.width(); ++x) changed += !(one.at(x, y) == another.at(x, y));
  }
  CHECK(changed == 2);
}

TEST_CASE("labels are thinned until they fit", "[plot]") {
  CHECK(label_step(20, 16) == 1);
  CHECK(label_step(16, 16) == 1);
  CHECK(label_step(15, 16) == 2);
  CHECK(label_step(4, 26) == 10);
  CHECK(label_step(0.5, 26) == 100);
  for (const double pitch : {0.25, 1.0, 3.0, 7.5, 100.0})
    CHECK(label_step(pitch, 30) * pitch >= 30);

  // All 16 labels are drawn: changing any one changes the picture. Of 512 most are left out.
  const auto with_label = [](int size, int changed) {
    const auto n = std::size_t(size);
    HeatmapGrid grid{"", {panel(size, size)},    1, std::vector<std::string>(n, "a"), {}, "",
                     "", ColorScale::kSequential};
    if (changed >= 0) grid.row_labels[std::size_t(changed)] = "b";
    return draw_heatmap(grid);
  };
  const Image small = with_label(16, -1), large = with_label(512, -1);
  for (const int i : {0, 7, 15}) CHECK_FALSE(same(small, with_label(16, i)));
  CHECK_FALSE(same(large, with_label(512, 0)));
  CHECK_FALSE(same(large, with_label(512, 100)));
  CHECK(same(large, with_label(512, 101)));
}

TEST_CASE("a heat map refuses what does not fit together", "[plot]") {
  const auto draw = [](std::vector<Panel> panels, int columns, std::vector<std::string> labels) {
    return draw_heatmap(
        {"", std::move(panels), columns, std::move(labels), {}, "", "", ColorScale::kSequential});
  };
  CHECK_THROWS_AS(draw({}, 1, {}), autograd::ValueError);
  CHECK_THROWS_AS(draw({panel(2, 2)}, 0, {}), autograd::ValueError);
  CHECK_THROWS_AS(draw({panel(0, 2)}, 1, {}), autograd::ShapeError);
  CHECK_THROWS_AS(draw({{"L0H0", 2, 2, {1, 2, 3}}}, 1, {}), autograd::ShapeError);
  CHECK(error_text([&] {
          draw({panel(2, 2), panel(2, 3)}, 1, {});
        }) == "heatmap: needs panels of one size, got L0H0 [2, 2] and L0H0 [2, 3]");
  CHECK(error_text([&] { draw({panel(2, 2)}, 1, {"a"}); }) ==
        "heatmap: needs one row label for each of 2 rows or none, got 1");
}

}  // namespace heed::plot
