// Tests of the values in the page of a study; page_test.py tests its texts in a browser.
#include "tools/heed/study/page/page.h"

#include "tests/support/catch.h"
#include "tools/plot/heatmap_layout.h"

namespace {

using namespace heed;

// Decodes the codes of map_json() to values; NaN: masked.
std::vector<double> decoded(const nn::Json& map) {
  static const std::string digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<double> values;
  std::uint32_t bits = 0;
  int count = 0, low = -1;
  for (const char c : map.find("codes")->text()) {
    if (c == '=') break;
    REQUIRE(digits.find(c) != std::string::npos);
    bits = bits << 6 | std::uint32_t(digits.find(c)), count += 6;
    if (count < 8) continue;
    const int byte = int(bits >> (count -= 8) & 255);
    if (low < 0) {
      low = byte;
      continue;
    }
    const auto code = std::int16_t(low | byte << 8);
    values.push_back(code == -32768 ? NAN : map.find("scale")->number() * code / 32767);
    low = -1;
  }
  return values;
}

// Returns a grid of two panels of sines.
plot::HeatmapGrid waves(int n) {
  plot::HeatmapGrid grid{.panels = {}, .panel_columns = 2, .row_axis = "query", .col_axis = "key"};
  for (const char* title : {"L0H0", "L0H1"}) {
    plot::Panel p{title, n, n, {}, std::vector<std::uint8_t>(std::size_t(n * n), 0)};
    for (int i = 0; i < n * n; ++i) p.values.push_back(float(1e-3 * std::sin(0.7 * double(i))));
    grid.panels.push_back(p);
  }
  return grid;
}

TEST_CASE("a map of the page has each value within half a step of its scale, and its place") {
  for (const int n : {1, 2, 3, 5, 16}) {
    plot::HeatmapGrid grid = waves(n);
    if (n > 3) {  // masked cells do not affect the scale
      grid.panels[1].values[3] = 100, grid.panels[1].masked[3] = 1;
      grid.panels[1].values[4] = -std::numeric_limits<float>::infinity();
    }
    const nn::Json json = map_json(grid);
    const std::vector<double> got = decoded(json);
    REQUIRE(got.size() == std::size_t(2 * n * n));
    const double scale = json.find("scale")->number();
    double largest = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto cells = std::size_t(n) * std::size_t(n);
      CAPTURE(n, i);
      if (n > 3 && (i == cells + 3 || i == cells + 4)) {
        CHECK(std::isnan(got[i]));
        continue;
      }
      const double value = double(grid.panels[i / cells].values[i % cells]);
      REQUIRE(std::abs(got[i] - value) <= scale / 65534 * 1.000001);
      largest = std::max(largest, std::abs(value));
    }
    CHECK(scale == largest);
    const plot::HeatmapLayout layout = plot::lay_out(grid);
    const nn::Json& second = json.find("panels")->items()[1];
    CHECK((*second.find("left") == layout.panel_x(1) && *second.find("top") == layout.panel_y(1)));
    CHECK((*json.find("width") == layout.width && json.find("pitch")->number() == layout.pitch()));
  }
  CHECK(map_json(waves(128)).dump().size() < 2 * 128 * 128 * 28 / 10);
}

}  // namespace
