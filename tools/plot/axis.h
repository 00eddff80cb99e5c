// One axis of a line chart: its range, ticks and tick labels.
#pragma once

#include <string>
#include <vector>

namespace heed::plot {

/// Range, ticks and labels of one axis.
struct Axis {
  bool log = false;  ///< true: the scale is logarithmic
  ///@{
  /// Lower and upper end of the range: the value, or its log10 if the axis is logarithmic.
  double low = 0, high = 1;
  ///@}
  std::vector<double> ticks;        ///< value at each tick (not its log10, even if `log`)
  std::vector<std::string> labels;  ///< [ticks], the text at each tick

  /// Returns true if the axis can show `value`: it is finite, its magnitude is below 1e300, and it
  /// is positive if the axis is logarithmic.
  bool shows(double value) const;
  /// Returns the position of `value` on the axis: 0 at the low end, 1 at the high end.
  double share(double value) const;
  /// Returns the text beside the axis: `name`, and ", logarithmic" if the axis is logarithmic. If
  /// `name` is empty, so is the text.
  std::string title(const std::string& name) const;
};

/// Returns an axis whose range contains all `values` that it can show. The range is extended at
/// both ends by the fraction `air` of its length. There are about `wanted` ticks. If the axis is
/// linear and all values are whole numbers, the ticks are whole numbers, too.
Axis fit_axis(const std::vector<double>& values, bool log, double air, int wanted);

}  // namespace heed::plot
