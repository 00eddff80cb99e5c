// Color maps: viridis for magnitudes, blue-white-orange for signed values, distinct colors for
// curves.
#pragma once

#include "tools/plot/image.h"

namespace heed::plot {

/// Returns the color of matplotlib's viridis (S. van der Walt, N. Smith 2015, CC0) at `t`, which is
/// clamped to [0, 1]. There are 256 colors, and their lightness grows with `t`. Returns kGray if
/// `t` is NaN.
Rgb viridis(double t);

/// Returns a color between blue (t = -1), white (0) and orange (+1); `t` is clamped to [-1, 1].
/// Lightness depends only on |t|, so that neither sign looks stronger in print or to color-blind
/// readers. Returns kGray if `t` is NaN.
Rgb diverging(double t);

/// Number of distinct category colors.
inline constexpr std::size_t kCategoryColors = 8;
/// Returns the i-th of `count` distinct colors (i < count). If `count` is larger than
/// kCategoryColors, the colors are evenly spaced colors of viridis.
Rgb category_color(std::size_t i, std::size_t count);

}  // namespace heed::plot
