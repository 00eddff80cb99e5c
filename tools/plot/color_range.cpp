#include "tools/plot/color_range.h"

#include <algorithm>
#include <cmath>

#include "tools/plot/colormap.h"

namespace heed::plot {

Rgb ColorRange::color(double value) const {
  return scale == ColorScale::kDiverging ? diverging(value / limit) : viridis(value / limit);
}

std::string ColorRange::text() const {
  return format_number(first()) + " to " + format_number(limit);
}

ColorRange color_range(const HeatmapGrid& grid) {
  ColorRange range{.scale = grid.scale};
  for (const Panel& panel : grid.panels) {
    float largest = 0;
    for (std::size_t i = 0; i < panel.values.size(); ++i) {
      const float v = panel.values[i];
      const bool hidden = !panel.masked.empty() && panel.masked[i] != 0;
      if (std::isfinite(v) && !hidden)
        largest = std::max(largest, grid.scale == ColorScale::kDiverging ? std::abs(v) : v);
    }
    range.largest.push_back(double(largest));
  }
  range.limit = grid.limit.value_or(*std::max_element(range.largest.begin(), range.largest.end()));
  if (!(range.limit > 0)) range.limit = 1;
  return range;
}

}  // namespace heed::plot
