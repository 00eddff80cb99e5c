// The data of one panel of a line chart: bands, curves, points, and labels of points.
// chart.cpp draws everything around the data.
#pragma once

#include "tools/plot/axis.h"
#include "tools/plot/canvas.h"
#include "tools/plot/chart.h"
#include "tools/plot/font.h"

namespace heed::plot {

/// Sizes that the data of a panel and what is around it share, in pixels.
struct ChartStyle {
  static constexpr int kWidth = 1000;    ///< width of a picture
  static constexpr int kMargin = 24;     ///< space at the edges of a picture
  static constexpr int kLabelGap = 8;    ///< space between a label and what it names
  static constexpr double kText = 16.5;  ///< text size, pixels per em
  static constexpr double kCurve = 2;    ///< thickness of a curve
  static constexpr int kReference = 1;   ///< dash pattern of reference values
};

/// The rectangle in which the data of a panel are drawn, with the mapping from values to pixels.
struct Area {
  int left = 0, top = 0, right = 0, bottom = 0;  ///< edges in pixels
  Axis x, y;                                     ///< the axes
  /// Returns the place of the point (a, b).
  Spot spot(double a, double b) const {
    return {left + x.share(a) * width(), bottom - y.share(b) * height()};
  }
  /// Returns whether the series has a point i and both axes show it.
  bool shows(const Series& s, std::size_t i) const {
    return i < s.x.size() && x.shows(s.x[i]) && y.shows(s.y[i]);
  }
  ///@{
  /// Sizes and centers in pixels.
  int width() const { return right - left; }
  int height() const { return bottom - top; }
  int center() const { return (left + right) / 2; }
  int middle() const { return (top + bottom) / 2; }
  ///@}
};

/// Draws the band of a series: the area between Series::low and Series::high.
void draw_band(Canvas& canvas, const Series& s, Rgb color, const Area& area);
/// Draws one point of a series: a dot or a ring.
void draw_dot(Canvas& canvas, const Series& s, Spot at, Rgb color);
/// Draws the points of a series.
void draw_points(Canvas& canvas, const Series& s, Rgb color, const Area& area);
/// Draws the labels of points: to the right of the point or, if that overlaps an earlier label or
/// leaves the plot, to the left, or one line below or above. If the axes are equal, a label covers
/// no dot and no line. If no such place is free, the label is to the right, or is left out if the
/// axes are equal.
void draw_labels(Canvas& canvas, const LineChart& panel, const Area& area);
/// Draws the lines at 0 and the diagonal of a panel whose axes are equal.
void draw_equality(Canvas& canvas, const Area& area);
/// Draws a series as a curve. A short curve has a dot at each point if `may_dot` is true.
void draw_curve(Canvas& canvas, const Series& s, Rgb color, const Area& area, bool may_dot);

}  // namespace heed::plot
