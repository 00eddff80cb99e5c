#include "tools/plot/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/plot/text.h"

namespace heed::plot {
namespace {

double axis_unit(bool log, double value) { return log ? std::log10(value) : value; }

void linear_ticks(Axis& axis, double low, double high, int wanted, double least_step) {
  const double rough = std::max((high - low) / wanted, least_step);
  const double decade = std::pow(10.0, std::floor(std::log10(rough)));
  const double step = decade * (rough <= 1.001 * decade   ? 1
                                : rough <= 2.001 * decade ? 2
                                : rough <= 5.001 * decade ? 5
                                                          : 10);
  const int decimals = std::max(0, -int(std::floor(std::log10(step * 1.001))));
  const bool plain = decimals <= 4 && std::max(std::abs(low), std::abs(high)) < 1e6;
  for (double i = std::ceil(low / step); i * step <= high; ++i) {
    const double value = i == 0 ? 0 : i * step;  // avoids -0
    axis.ticks.push_back(value);
    axis.labels.push_back(plain ? typeset_number(fmt::format("{:.{}f}", value, decimals))
                                : format_number(value, 6));
    if (axis.ticks.size() > 100) break;  // if i is very large, i + 1 == i: the loop would not end
  }
}

void log_ticks(Axis& axis, int wanted) {
  const double decades = axis.high - axis.low;
  if (decades < 0.7) {  // too short a range for ticks at 1, 2, 5 times a power of ten
    linear_ticks(axis, std::pow(10.0, axis.low), std::pow(10.0, axis.high), wanted, 0);
    return;
  }
  const int stride = std::max(1, int(std::ceil(decades / 8)));
  const int first = int(std::floor(axis.low));
  for (int d = first; d <= std::ceil(axis.high); d += stride) {
    for (const int factor : {1, 2, 5}) {
      if (factor > 1 && decades > 3.5) continue;
      const double value = factor * std::pow(10.0, d), at = std::log10(value);
      if (at < axis.low || at > axis.high) continue;
      axis.ticks.push_back(value);
      axis.labels.push_back(stride > 1 ? typeset_number(fmt::format("{:.0e}", value))
                                       : format_number(value, 4));
    }
  }
}

}  // namespace

bool Axis::shows(double value) const {
  return std::isfinite(value) && std::abs(value) < 1e300 && (!log || value > 0);
}

double Axis::share(double value) const { return (axis_unit(log, value) - low) / (high - low); }

std::string Axis::title(const std::string& name) const {
  return log && !name.empty() ? name + ", logarithmic" : name;
}

Axis fit_axis(const std::vector<double>& values, bool log, double air, int wanted) {
  Axis axis;
  axis.log = log;
  bool any = false, whole = true;
  for (const double v : values) {
    if (!axis.shows(v)) continue;
    const double u = axis_unit(log, v);
    axis.low = any ? std::min(axis.low, u) : u;
    axis.high = any ? std::max(axis.high, u) : u;
    any = true;
    whole = whole && v == std::floor(v);
  }
  const double magnitude = std::max(std::abs(axis.low), std::abs(axis.high));
  const double span = axis.high - axis.low;
  const double pad = span > 1e-9 * magnitude ? air * span : std::max(0.1 * magnitude, 0.5);
  axis.low -= pad;
  axis.high += pad;
  if (log)
    log_ticks(axis, wanted);
  else
    linear_ticks(axis, axis.low, axis.high, wanted, any && whole ? 1 : 0);
  return axis;
}

}  // namespace heed::plot
