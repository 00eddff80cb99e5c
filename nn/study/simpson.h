// Simpson's rule for numerical integration over [0, 1].
#pragma once

#include <cstdint>

#include "autograd/base/error.h"

namespace heed::nn {

/// Points and weights of the composite Simpson's rule on [0, 1].
struct Simpson {
  std::int64_t points;  ///< number of equidistant points, including 0 and 1

  /// Throws ValueError unless `count` is odd and at least 3. The message begins with `caller`.
  Simpson(std::int64_t count, const char* caller) : points(count) {
    heed::check<autograd::ValueError>(points >= 3 && points % 2 == 1, caller,
                                      "Simpson's rule needs an odd number of points, 3 or "
                                      "more, got ",
                                      points);
  }
  /// Returns point i, counted from 0.
  double at(std::int64_t i) const { return double(i) / double(points - 1); }
  /// Returns the weight of point i. The weights sum to 1.
  double weight(std::int64_t i) const {
    const double part = i == 0 || i == points - 1 ? 1 : i % 2 == 1 ? 4 : 2;
    return part / (3 * double(points - 1));
  }
};

}  // namespace heed::nn
