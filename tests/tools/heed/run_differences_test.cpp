// Tests of maps of the differences between two models on one sequence.
#include "tools/heed/study/run_differences.h"

#include "autograd/ops/ops.h"
#include "tests/support/catch.h"
#include "tests/support/models.h"

namespace {

using namespace heed;
using namespace heed::autograd;

nn::Study studied(std::int64_t heads, std::int64_t layers, std::int64_t seed) {
  nn::Transformer::Options o;
  o.vocab = 5, o.attention.d_model = 12, o.attention.heads = heads, o.layers = layers,
  o.context = 4;
  o.attention.dtype = float64;
  nn::Sequence s;
  s.inputs = {0, 1, 2, 0}, s.targets = {1, 2, 0, 1}, s.counted.assign(4, true);
  return study(nn::testing::random_module<nn::Transformer>(o, seed), nn::make_batch({s}), {});
}

TEST_CASE("a difference map is B minus A for heads that both runs have, with hidden cells masked") {
  const nn::Study a = studied(3, 2, 1), b = studied(2, 1, 2);
  std::vector<nn::HeadMatch> matches{{{0, 0}, nn::HeadIndex{0, 1}, 0.9, true},
                                     {{0, 1}, nn::HeadIndex{0, 0}, 0.8, true},
                                     {{0, 2}, {}, 0, false}};
  const nn::Study difference = difference_of(a, b, matches);
  for (const nn::MapQuantity& quantity : nn::map_quantities()) {
    INFO(quantity.name);
    const plot::HeatmapGrid grid = difference_grid(difference, quantity, matches);
    REQUIRE(grid.panels.size() == 3);
    CHECK(grid.panel_columns == 3);
    CHECK(grid.panels[2].title == "L0H2, no match");
    for (std::int64_t head = 0; head < 2; ++head) {
      const plot::Panel& panel = grid.panels[std::size_t(head)];
      const std::string a_name = "L0H" + std::to_string(head),
                        b_name = "L0H" + std::to_string(1 - head);
      CHECK(panel.title == a_name + " ~ " + b_name);
      const auto map = [&](const nn::Study& s, std::int64_t h) {
        return contiguous(select(s.layers[0].*quantity.values, 1, h)).to_vector<double>();
      };
      const auto x = map(a, head), y = map(b, 1 - head);
      double largest = 0;
      for (std::size_t i = 0; i < 16; ++i) {
        CHECK(bool(panel.masked[i]) == (i % 4 > i / 4));
        if (panel.masked[i]) continue;
        CHECK(double(panel.values[i]) == Approx(y[i] - x[i]).margin(1e-6));
        largest = std::max(largest, std::abs(y[i] - x[i]));
      }
      CHECK(largest > 1e-4);
    }
  }
}

}  // namespace
