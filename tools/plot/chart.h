// Line charts: curves over training steps or positions, with reference values. A picture shows one
// chart, or several charts below each other that share one x axis.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/plot/image.h"

namespace heed::plot {

/// One curve. Points are joined by a line in the given order. A point that is not finite, or not
/// positive on a logarithmic axis, is left out, and the line breaks there. A curve of at most 30
/// points also shows each point as a dot.
struct Series {
  /// Name in the legend. If the series is in a ChartStack that has `colors` or `dashes`, the name
  /// is at the right end of the curve instead.
  std::string name = {};
  ///@{
  /// Coordinates of the points. `x` and `y` have the same length.
  std::vector<double> x = {}, y = {};
  ///@}
  /// Pattern of the line, 0 to kDashPatterns - 1. ChartStack::dashes gives the meaning of each
  /// pattern. If the series is not in a ChartStack with `colors` or `dashes`, a dashed curve
  /// (pattern 1 or more) has no dots. Such a curve can show a prediction.
  int dash = 0;
  ///@{
  /// Lower and upper edge of a pale band around the curve: one value per point, or empty. If the y
  /// axis is logarithmic and a value is not positive, the edge is at the bottom of the plot.
  std::vector<double> low = {}, high = {};
  ///@}
  /// True: draws dots without a line and without a band. The legend also shows a dot.
  bool points = false;
  bool hollow = false;  ///< true: the dots are rings
  /// Texts beside the points: one per point, which may be "", or empty.
  std::vector<std::string> labels = {};
  /// Index into ChartStack::colors, or -1 for kInk. If the series is not in a ChartStack with
  /// `colors` or `dashes`, this must be -1, and each series has a different color.
  int color = -1;
};

/// A reference value, drawn as a dashed horizontal line. Its name and value are printed to the
/// right of the plot.
struct HLine {
  std::string name;  ///< text before the value
  double y = 0;      ///< the value; if it is not finite, no line is drawn
};

/// A line chart: a picture of its own (draw_chart) or one panel of a ChartStack.
struct LineChart {
  ///@{
  /// Title above the plot, name of the x axis, name of the y axis; each may be empty.
  std::string title = {}, x_name = {}, y_name = {};
  ///@}
  /// The curves. Each is drawn on top of the curves before it in the list.
  std::vector<Series> series = {};
  std::vector<HLine> hlines = {};  ///< reference values, drawn on top of the curves
  ///@{
  /// True: the y axis or the x axis is logarithmic. ", logarithmic" is added to its name.
  bool log_y = false, log_x = false;
  ///@}
  std::vector<double> ends = {};  ///< values that the range of the y axis must include
  /// True: the panel has an x axis of its own. Both axes have one range, which contains 0. The plot
  /// is square if it has room, with lines at 0 and a dashed diagonal where x equals y.
  bool equal = false;
  /// Height of the plot in pixels. 0 means 96 if the picture has several panels. If it has only one
  /// panel, 0 means that the whole picture is 640 pixels high.
  int height = 0;
};

/// A dashed vertical line through all panels of a stack.
struct VLine {
  std::string name;  ///< text in the legend
  double x = 0;      ///< position on the x axis
};

/// Charts below each other that share one x axis. The `x_name` and `log_x` of the last panel apply
/// to all panels. The range of the axis contains the points of all panels.
struct ChartStack {
  ///@{
  /// Title of the picture, and an explanation below the title. Long lines are wrapped.
  std::string title = {}, caption = {};
  ///@}
  std::vector<LineChart> panels = {};  ///< from top to bottom, at least one
  /// Meaning of each color, for the legend. At most 8 colors are category colors. If there are
  /// more, all are taken from viridis.
  std::vector<std::string> colors = {};
  /// Meaning of each dash pattern, for the legend; at most kDashPatterns entries.
  std::vector<std::string> dashes = {};
  std::optional<VLine> vline = {};  ///< marks a position on the x axis, if set
};

/// Returns a stack with this chart, whose title becomes that of the picture.
ChartStack stack_of(LineChart chart);

/// Draws the chart as a picture that is 1000 pixels wide, and 640 pixels high unless `height` is
/// set. The legend is above the plot and never covers a curve. Throws ShapeError if `x` and `y` of
/// a series differ in length, or if its `low` and `high` are neither empty nor of that length.
/// Throws ValueError if a series has a `color` of 0 or more, or a `dash` outside 0 to kDashPatterns
/// - 1.
Image draw_chart(const LineChart& chart);

/// Draws the stack as a picture that is 1000 pixels wide. Throws ShapeError under the conditions of
/// draw_chart. Throws ValueError if `panels` is empty, if `dashes` has more than kDashPatterns
/// entries, or if the `color` of a series has no entry in `colors`. Also throws ValueError if a
/// `dash` is outside 0 to kDashPatterns - 1. In a stack with `colors` or `dashes`, the `dash` of a
/// series without a name must be 0 or have an entry in `dashes`; otherwise throws ValueError.
Image draw_chart_stack(const ChartStack& stack);
/// Draws the stack, as draw_chart_stack() does, on `canvas`, which gets the size of the picture.
void draw(const ChartStack& stack, Canvas& canvas);

}  // namespace heed::plot
