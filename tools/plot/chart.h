// Line charts: curves over training steps or positions, with reference values beside them, alone or
// one above the other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/plot/image.h"
#include "tools/plot/pen.h"

namespace heed::plot {

/// One curve. Points that are not finite, or not positive on a logarithmic axis, are left out; the
/// line breaks there. Points are joined in the order given; up to 30 of them are dots, too.
struct Series {
  std::string name = {};  ///< in the legend; at the curve's right end where a stack names colors
  std::vector<double> x = {}, y = {};
  int dash = 0;  ///< pattern of the line. Alone, a dashed curve is a prediction, without dots
  /// A band around the curve, pale; both of y's length, or empty. An end that a logarithmic axis
  /// cannot show is the plot's.
  std::vector<double> low = {}, high = {};
  bool points = false;  ///< dots that nothing joins, the band a bar through each
  int color = -1;       ///< index of ChartStack::colors, -1: ink; without colors each has its own
};

/// A reference value, drawn dashed; its name and value stand at the right of the plot.
struct HLine {
  std::string name;
  double y = 0;
};

struct LineChart {
  std::string title = {}, x_name = {}, y_name = {};
  std::vector<Series> series = {};
  std::vector<HLine> hlines = {};
  bool log_y = false, log_x = false;
  std::vector<std::string> x_labels = {};  ///< of x = 0, 1, ..., in place of numbers
  std::vector<double> ends = {};           ///< values that the y axis reaches in any case
  int height = 0;  ///< of the plot, pixels; 0: 96 in a stack, what 640 leave alone
};

/// A place along x, a dashed line through all panels.
struct VLine {
  std::string name;
  double x = 0;
};

/// Charts one above the other along one x axis: that of the last panel, over the points of all.
struct ChartStack {
  std::string title = {}, caption = {};
  std::vector<LineChart> panels = {};
  std::vector<std::string> colors = {};  ///< what each stands for; more than 8 go by viridis
  std::vector<std::string> dashes = {};  ///< what each stands for, at most kDashPatterns
  std::optional<VLine> vline = {};
};

/// Draws the chart, 1000 x 640 pixels. The legend stands above the plot, never on the curves.
/// ShapeError: a series whose x and y, or y and band, differ in length.
Image draw_chart(const LineChart& chart);

/// Draws the stack, 1000 pixels wide. ShapeError: as draw_chart. ValueError: no panel, a color or
/// dash that nothing explains, too many dashes.
Image draw_chart_stack(const ChartStack& stack);

}  // namespace heed::plot
