// Simpson's rule on [0, 1].
#pragma once

#include <cstdint>

#include "autograd/base/error.h"

namespace heed::nn {

struct Simpson {
  std::int64_t points;  ///< at i / (points - 1)

  /// ValueError, which begins with `who`, unless points is odd and at least 3.
  Simpson(std::int64_t count, const char* who) : points(count) {
    heed::check<autograd::ValueError>(points >= 3 && points % 2 == 1, who,
                                      "Simpson's rule needs an odd number of points, 3 or "
                                      "more, got ",
                                      points);
  }
  double at(std::int64_t i) const { return double(i) / double(points - 1); }
  double weight(std::int64_t i) const {
    const double part = i == 0 || i == points - 1 ? 1 : i % 2 == 1 ? 4 : 2;
    return part / (3 * double(points - 1));
  }
};

}  // namespace heed::nn
