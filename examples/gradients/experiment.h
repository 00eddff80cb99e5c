// What the experiments share: a power law read off measurements, and the end of main().
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tools/plot/plot.h"

/// Slope of log y over log x, by least squares.
inline double log_log_slope(const std::vector<double>& x, const std::vector<double>& y) {
  double mx = 0, my = 0, xx = 0, xy = 0;
  const auto n = double(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) mx += std::log(x[i]) / n, my += std::log(y[i]) / n;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double dx = std::log(x[i]) - mx;
    xx += dx * dx;
    xy += dx * (std::log(y[i]) - my);
  }
  return xy / xx;
}

/// Writes the chart. What main() returns: 0, or 1 where the prediction fails, or 4 if the file
/// cannot be written.
inline int finish(const heed::plot::LineChart& chart, const std::string& file,
                  const std::string& alt_text, bool prediction_holds) try {
  heed::plot::write_png(file, heed::plot::draw_chart(chart), alt_text);
  std::printf("picture: %s\n", file.c_str());
  return prediction_holds ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 4;
}
