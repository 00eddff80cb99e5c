// Tests of stacked charts: positions and colors of pixels, and the texts in the picture.
#include "tests/support/catch.h"
#include "tests/support/pictures.h"
#include "tools/plot/chart.h"

namespace heed::plot {
namespace {

ChartStack two_panels() {
  const std::vector<double> x = {0, 10, 20, 30};
  LineChart loss{.title = "loss", .hlines = {{"best possible", 1.25}}};
  loss.series = {{"all targets", x, {3, 2.5, 1.5, 1.4}}};
  LineChart score{.title = "score", .x_name = "step"};
  score.series = {{.x = x, .y = {0, 0.1, 0.8, 0.9}, .color = 0},
                  {.x = x, .y = {0.2, 0.2, 0.3, NAN}, .dash = 1, .color = 1}};
  return {.title = "Training",
          .caption = "Two layers of two heads.",
          .panels = {loss, score},
          .colors = {"layer 0", "layer 1"},
          .dashes = {"head 0", "head 1"}};
}

// Returns the columns, from left to right, in which is(x, y) is true for a row of [top, bottom).
std::vector<int> columns_where(const Image& image, int top, int bottom,
                               const std::function<bool(int, int)>& is) {
  std::vector<int> found;
  for (int x = 0; x < image.width(); ++x) {
    int y = top;
    while (y < bottom && !is(x, y)) ++y;
    if (y < bottom) found.push_back(x);
  }
  return found;
}

TEST_CASE("a stack names its colors, dashes and reference values; no texts overlap") {
  ChartStack s = two_panels();
  s.vline = VLine{"falls fastest", 15};
  const Image image = draw_chart_stack(s);
  CHECK(text_faults(image) == "");
  for (const char* text :
       {"Training", "Two layers of two heads.", "loss", "score", "step", "layer 0", "layer 1",
        "head 0", "head 1", "falls fastest", "all targets", "best possible 1.25", "10", "30"}) {
    INFO(text);
    CHECK(has_text(image, text));
  }
  CHECK_FALSE(has_text(image, "nan"));
}

TEST_CASE("panels share the x axis: a vertical line is in the same columns of each panel") {
  ChartStack s = two_panels();
  s.vline = VLine{"falls fastest", 15};
  const Image with = draw_chart_stack(s);
  s.vline->x = 25;
  const Image moved = draw_chart_stack(s);
  REQUIRE(with.height() == moved.height());
  const auto differing = [&](int top, int bottom) {
    return columns_where(with, top, bottom,
                         [&](int x, int y) { return !(with.at(x, y) == moved.at(x, y)); });
  };
  const int panels = with.height() - 2 * (96 + 8 + line_height(16.5) + 8) - 60;
  const auto upper = differing(panels, panels + 90),
             lower = differing(with.height() - 140, with.height() - 60);
  REQUIRE_FALSE(upper.empty());
  CHECK(upper == lower);
  CHECK(upper.size() < 12);  // the pictures differ only in two thin lines
}

TEST_CASE("labels do not overlap at the right edge, at the top or along a logarithmic axis") {
  ChartStack s = two_panels();
  s.panels[0].series.push_back({"counted tokens", {0, 10, 20, 30}, {3, 2.5, 1.5, 1.38}});
  s.panels[0].hlines = {{"best possible", 1.41}, {"copy-only", 1.42}};
  s.panels[1].log_y = true;
  s.panels[1].series[0].y = {0.0011, 0.01, 0.1, 1}, s.panels[1].series[0].name = "upper";
  s.panels[1].series[1].y = {0.0011, 0.01, 0.1, 0.99}, s.panels[1].series[1].name = "lower";
  const Image image = draw_chart_stack(s);
  CHECK(text_faults(image) == "");
  for (const char* text : {"all targets", "counted tokens", "best possible 1.41", "copy-only 1.42",
                           "upper", "lower", "0.01", "0.1"}) {
    INFO(text);
    CHECK(has_text(image, text));
  }
}

TEST_CASE("an axis covers the requested range") {
  ChartStack s = two_panels();
  s.panels[1].series[0].y = {0.4, 0.41, 0.42, 0.4};
  s.panels[1].series[1].y = {0.4, 0.41, 0.42, 0.41};
  CHECK_FALSE(has_text(draw_chart_stack(s), "1.0"));
  s.panels[1].ends = {0, 1};
  CHECK(has_text(draw_chart_stack(s), "1.0"));
}

TEST_CASE("an inconsistent stack throws an error that names the fault") {
  ChartStack s = two_panels();
  s.panels[1].series[0].color = 2;
  CHECK(message_of([&] { draw_chart_stack(s); }) == "chart: color 2 has no name; needs at most 1");
  s = two_panels();
  s.panels[1].series[0].dash = 2;
  CHECK(message_of([&] { draw_chart_stack(s); }) == "chart: dash 2 has no name; needs 0 to 1");
  s.panels[1].series[0].name = "itself";
  CHECK(message_of([&] { draw_chart_stack(s); }) == "");
  s.dashes.assign(5, "head");
  CHECK(message_of([&] { draw_chart_stack(s); }) == "chart: needs at most 4 dashes, got 5");
  s.panels.clear(), s.dashes.clear();
  CHECK(message_of([&] { draw_chart_stack(s); }) == "chart: needs at least one panel, got none");
}

}  // namespace
}  // namespace heed::plot
