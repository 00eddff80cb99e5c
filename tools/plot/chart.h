// Line charts: curves over training steps or positions, with reference values. A chart is a picture
// of its own, or one of several charts stacked above each other along one x axis.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/plot/image.h"
#include "tools/plot/pen.h"

namespace heed::plot {

/// One curve. Points are joined by a line in the given order. A point that is not finite, or not
/// positive on a logarithmic axis, is left out, and the line breaks there. A curve of up to 30
/// points also shows each point as a dot.
struct Series {
  /// Name in the legend. If the stack has `colors` or `dashes`, the name is at the right end of the
  /// curve instead.
  std::string name = {};
  ///@{
  /// Coordinates of the points; x and y have the same length.
  std::vector<double> x = {}, y = {};
  ///@}
  /// Pattern of the line, 0 to kDashPatterns - 1. In a stack it is an index into
  /// ChartStack::dashes. Without `colors` and `dashes`, a dashed curve (pattern 1 or more) has no
  /// dots; use it for a prediction.
  int dash = 0;
  ///@{
  /// Lower and upper edge of a pale band around the curve: one value per point, or empty. On a
  /// logarithmic axis a value that is not positive puts the edge at the bottom of the plot.
  std::vector<double> low = {}, high = {};
  ///@}
  bool points = false;  ///< true: dots without a line; the band becomes a bar through each dot
  /// Index into ChartStack::colors, or -1 for kInk. If the stack has neither `colors` nor `dashes`,
  /// each series gets a color of its own.
  int color = -1;
};

/// A reference value, drawn as a dashed horizontal line. Name and value are printed at the right of
/// the plot.
struct HLine {
  std::string name;  ///< text before the value
  double y = 0;      ///< the value; a line that is not finite is not drawn
};

/// A line chart: a picture of its own (draw_chart) or one panel of a ChartStack.
struct LineChart {
  ///@{
  /// Title above the plot, name of the x axis, name of the y axis; each may be empty.
  std::string title = {}, x_name = {}, y_name = {};
  ///@}
  std::vector<Series> series = {};  ///< the curves, later ones above earlier ones
  std::vector<HLine> hlines = {};   ///< reference values, drawn above the curves
  ///@{
  /// True: that axis is logarithmic, and its name says so.
  bool log_y = false, log_x = false;
  ///@}
  std::vector<std::string> x_labels = {};  ///< labels of x = 0, 1, ... instead of numbers
  std::vector<double> ends = {};           ///< values that the range of the y axis must include
  /// Height of the plot in pixels. 0 means 96 in a stack of several panels; a single chart then
  /// fills a picture of 640 pixels.
  int height = 0;
};

/// A dashed vertical line through all panels of a stack.
struct VLine {
  std::string name;  ///< text in the legend
  double x = 0;      ///< position on the x axis
};

/// Charts above each other along one x axis. The name, scale and labels of the axis are those of
/// the last panel; its range covers the points of all panels.
struct ChartStack {
  ///@{
  /// Title, and the explanation below it; lines are wrapped.
  std::string title = {}, caption = {};
  ///@}
  std::vector<LineChart> panels = {};  ///< from top to bottom, at least one
  /// Meaning of each color, for the legend. Up to 8 colors are category colors; more are taken from
  /// viridis.
  std::vector<std::string> colors = {};
  std::vector<std::string> dashes = {};  ///< meaning of each dash pattern, up to kDashPatterns
  std::optional<VLine> vline = {};       ///< a marked position on the x axis, if there is one
};

/// Draws the chart as a picture of 1000 x 640 pixels. The legend is above the plot and never covers
/// a curve. Throws ShapeError if the x and y of a series, or its y and band, differ in length.
/// Throws ValueError if a series sets `color`, or a `dash` outside 0 to kDashPatterns - 1.
Image draw_chart(const LineChart& chart);

/// Draws the stack as a picture that is 1000 pixels wide. Throws ShapeError under the conditions of
/// draw_chart. Throws ValueError if there is no panel, if a series uses a color or dash without an
/// entry in `colors` or `dashes`, or if `dashes` has more than kDashPatterns entries. A series with
/// a name may use any pattern.
Image draw_chart_stack(const ChartStack& stack);

}  // namespace heed::plot
