// Helpers shared by the labs: comparison of predictions with measurements,
// and the slope of a power law.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "tools/plot/plot.h"

/// Compares the predictions of a lab with measurements. A prediction is the interval in which a
/// measured number should be.
class Predictions {
 public:
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  /// Prints the prediction and the measurement. The lab fails unless low <= measured <= high.
  void expect(const std::string& what, double measured, double low, double high = kNoLimit) {
    const bool holds = measured >= low && measured <= high;  // false if `measured` is NaN
    holds_ = holds_ && holds;
    std::printf("%s: predicted %s, measured %.4g: %s\n", what.c_str(), range(low, high).c_str(),
                measured, holds ? "holds" : "FAILS");
  }
  /// Prints the prediction and the measurement. The lab fails unless measured <= high.
  void expect_at_most(const std::string& what, double measured, double high) {
    expect(what, measured, -kNoLimit, high);
  }

  /// Writes the picture and returns the exit code: 0, 1 if a prediction failed,
  /// or 4 if the file cannot be written.
  int finish(const heed::plot::Image& picture, const std::string& file,
             const std::string& alt_text) const try {
    heed::plot::write_png(file, picture, alt_text);
    std::printf("\n%s\npicture: %s\n",
                holds_ ? "all predictions hold" : "A PREDICTION FAILS: see FAILS above",
                file.c_str());
    return holds_ ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 4;
  }

 private:
  static std::string range(double low, double high) {
    char text[64];
    if (high == kNoLimit)
      std::snprintf(text, sizeof text, ">= %.4g", low);
    else if (low == -kNoLimit)
      std::snprintf(text, sizeof text, "<= %.4g", high);
    else
      std::snprintf(text, sizeof text, "%.4g to %.4g", low, high);
    return text;
  }

  bool holds_ = true;
};

/// Returns the slope of log y over log x, by least squares.
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
