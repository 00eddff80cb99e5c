#include "tools/plot/color_range.h"

#include <algorithm>
#include <cmath>

#include "tools/plot/colormap.h"

namespace heed::plot {
namespace {

// Calls f for every finite, visible value of the panel. Passes |value| if the scale is diverging,
// otherwise the value.
template <class F>
void for_colored(const HeatmapGrid& grid, const Panel& panel, F f) {
  const bool diverging = grid.scale == ColorScale::kDiverging;
  for (std::size_t i = 0; i < panel.values.size(); ++i) {
    const float v = panel.values[i];
    const bool hidden = !panel.masked.empty() && panel.masked[i] != 0;
    if (std::isfinite(v) && !hidden) f(diverging ? std::abs(v) : v);
  }
}

// Returns true if fewer than 1 in kFew visible values are above half of `largest`.
bool few_are_large(const HeatmapGrid& grid, double largest) {
  constexpr std::int64_t kFew = 100;
  std::int64_t all = 0, large = 0;
  for (const Panel& panel : grid.panels)
    for_colored(grid, panel, [&](float v) {
      ++all;
      large += double(v) > largest / 2;
    });
  return largest > 0 && large * kFew < all;
}

// Returns true if more than half of the panels have a largest value (limit) below `largest` /
// kFaint. Panels with only zeros do not count.
bool half_look_empty(std::vector<double> limits, double largest) {
  constexpr double kFaint = 50;
  std::erase(limits, 0.0);
  if (limits.empty()) return false;
  const auto middle = limits.begin() + std::ptrdiff_t(limits.size() / 2);
  std::nth_element(limits.begin(), middle, limits.end());
  return *middle * kFaint < largest;
}

}  // namespace

double ColorRange::position(double value, std::size_t p) const {
  const double part = value / limits[p];
  return root ? std::copysign(std::sqrt(std::abs(part)), part) : part;
}

Rgb ColorRange::color(double position) const {
  return scale == ColorScale::kDiverging ? diverging(position) : viridis(position);
}

std::vector<double> ColorRange::bar_values() const {
  const double limit = by_panel ? 1.0 : limits.front();
  std::vector<double> values;
  for (int halves = int(2 * first_position()); halves <= 2; ++halves) {
    const double at = halves / 2.0;
    values.push_back(limit * (root ? at * std::abs(at) : at));
  }
  return values;
}

std::string ColorRange::text(const HeatmapGrid& grid) const {
  const auto range = [&](double limit) {
    const std::string end = format_number(limit);
    return (scale == ColorScale::kDiverging ? format_number(-limit) : "0") + " to " + end;
  };
  std::string text = range(limits.front());
  if (by_panel) {
    text = "by panel";
    for (std::size_t p = 0; p < limits.size(); ++p)
      text += (p == 0 ? ": " : ", ") + grid.panels[p].title + " " + range(limits[p]);
  }
  return text + (root ? ", by the root" : "");
}

ColorRange color_range(const HeatmapGrid& grid) {
  ColorRange range{.scale = grid.scale};
  for (const Panel& panel : grid.panels) {
    float largest = 0;
    for_colored(grid, panel, [&](float v) { largest = std::max(largest, v); });
    range.largest.push_back(double(largest));
  }
  const double largest = *std::max_element(range.largest.begin(), range.largest.end());
  range.limits = range.largest;
  range.by_panel = !grid.limit && half_look_empty(range.limits, largest);
  if (!range.by_panel)
    std::fill(range.limits.begin(), range.limits.end(), grid.limit.value_or(largest));
  for (double& limit : range.limits) limit = limit > 0 ? limit : 1.0;
  if (grid.limit) return range;
  range.root = grid.scale == ColorScale::kDiverging || few_are_large(grid, largest);
  return range;
}

}  // namespace heed::plot
