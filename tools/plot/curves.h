// Line charts: curves over training steps or positions, with reference values beside them.
#pragma once

#include <string>
#include <vector>

#include "tools/plot/image.h"

namespace heed::plot {

/// One curve. Points that are not finite, or not positive on a logarithmic axis, are left out; the
/// line breaks there. Points are joined in the order given; up to 30 of them are dots, too.
struct Series {
  std::string name = {};
  std::vector<double> x = {}, y = {};
  bool dashed = false;  ///< a prediction: what was not measured, so without dots
  /// A band around the curve, pale; both of y's length, or empty. An end that a logarithmic axis
  /// cannot show is the plot's.
  std::vector<double> low = {}, high = {};
  bool points = false;  ///< dots that nothing joins, the band a bar through each
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
};

/// Draws the chart, 1000 x 640 pixels. The legend stands above the plot, never on the curves.
/// ShapeError: a series whose x and y, or y and band, differ in length.
Image draw_chart(const LineChart& chart);

}  // namespace heed::plot
