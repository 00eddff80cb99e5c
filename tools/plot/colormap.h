// Colors: viridis for magnitudes, blue-white-orange for signed values, distinct ones for curves.
#pragma once

#include "tools/plot/image.h"

namespace heed::plot {

/// matplotlib's viridis (S. van der Walt, N. Smith 2015, CC0) at `t` in [0, 1], clamped; 256 steps,
/// lightness grows with t. NaN is kGray.
Rgb viridis(double t);

/// Blue at -1, white at 0, orange at +1, clamped; lightness depends on |t| only, so that neither
/// sign looks stronger, in print and to color-blind readers. NaN is kGray.
Rgb diverging(double t);

inline constexpr std::size_t kCategoryColors = 8;
/// The i-th of `count` distinct colors; more than kCategoryColors go by viridis.
Rgb category_color(std::size_t i, std::size_t count);

}  // namespace heed::plot
