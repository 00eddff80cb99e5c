// One axis of a line chart: its range and its ticks.
#pragma once

#include <string>
#include <vector>

namespace heed::plot {

/// The range in axis units (log10 of the value if logarithmic), and the ticks, in values.
struct Axis {
  bool log = false;
  double low = 0, high = 1;
  std::vector<double> ticks;
  std::vector<std::string> labels;

  bool shows(double value) const;
  double share(double value) const;  ///< 0 at the low end, 1 at the high one
  /// What stands beside it: a logarithmic one says so.
  std::string title(const std::string& name) const;
};

/// The axis that shows all `values` it can, with `air`, a part of the range, at both ends, and
/// about `wanted` ticks. Whole numbers alone get no ticks between them.
Axis fit_axis(const std::vector<double>& values, bool log, double air, int wanted);

}  // namespace heed::plot
