// Line charts one above the other along one x axis: what happens at the same time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/plot/curves.h"

namespace heed::plot {

/// A curve over the stack's x. Points that are not finite, or not positive on a logarithmic axis,
/// are left out; the line breaks there.
struct StackedSeries {
  std::vector<double> y;
  int color = -1;         ///< index of ChartStack::colors; -1: ink
  int dash = 0;           ///< index of ChartStack::dashes, or any pattern of a series with a name
  std::string name = {};  ///< at the right end of the curve; empty: color and dash say it
};

struct StackedChart {
  std::string name;  ///< above the panel
  std::vector<StackedSeries> series = {};
  std::vector<HLine> hlines = {};  ///< drawn dashed; name and value at the right
  std::vector<double> ends = {};   ///< values that the axis reaches, whatever the series do
  bool log_y = false;
  int height = 96;  ///< of the plot, pixels
};

/// A place along x, a dashed line through all panels.
struct VLine {
  std::string name;
  double x = 0;
};

inline constexpr int kDashPatterns = 4;  ///< solid, dashed, dotted, dashes and dots

struct ChartStack {
  std::string title = {}, caption = {}, x_name = {};
  std::vector<double> x = {};
  std::vector<StackedChart> panels = {};
  std::vector<std::string> colors = {};  ///< what each stands for; more than 7 go by viridis
  std::vector<std::string> dashes = {};  ///< what each stands for, at most kDashPatterns
  std::optional<VLine> vline = {};
};

/// Draws the stack, 1000 pixels wide. Up to 30 points are dots, too. ShapeError: a series of
/// another length than x. ValueError: no panel, a color or dash that nothing explains, too many
/// dashes.
Image draw_chart_stack(const ChartStack& stack);

}  // namespace heed::plot
