// Umbrella header of heed::plot. A heat map or a line chart is a plain struct; draw_heatmap and
// draw_chart turn it into an Image, and write_png writes the Image to a file. draw() draws a
// HeatmapGrid, a ChartStack or a Network on any Canvas, for example an SvgCanvas.
#pragma once

#include "tools/plot/chart.h"
#include "tools/plot/colormap.h"
#include "tools/plot/heatmap.h"
#include "tools/plot/image.h"
#include "tools/plot/network.h"
#include "tools/plot/png.h"
#include "tools/plot/svg.h"
#include "tools/plot/text.h"

/// The library heed::plot: heat maps and charts as PNG and SVG files.
namespace heed::plot {}
