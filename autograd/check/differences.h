// Central differences of any code, and how far they can be trusted. Knows no tensor.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace heed::autograd {

/// The outputs of a function on a line: at x + t u, for some x and u. As many for every t.
using Line = std::function<std::vector<double>(double t)>;

/// The derivative of <v, f> along a line, and what is known about its error.
struct Difference {
  double value = 0;
  /// Bound of |value - derivative|: how far two steps are apart, and the noise of f at that step.
  double error = 0;
  double terms = 0;   ///< sum over the outputs of |v_o * (its derivative)|
  double step = 0;    ///< of t; the stencil is +-step/2, +-step, +-2 step
  bool kink = false;  ///< the slopes from the left and from the right disagree at every step
  double jump = 0;    ///< sum over the outputs of |v_o * (right slope - left slope)|, over step/2
  double jump_noise = 0;  ///< a jump up to this may be the noise of f
};

/// The rounding noise of each output at t = 0: high-order differences of values so close together
/// that f is a straight line between them (Hamming, Introduction to Applied Numerical Analysis, 6).
/// At least `epsilon` of the value. `scale`: the t over which f changes much.
std::vector<double> measure_noise(const Line& f, double scale, double epsilon);

/// Four-point differences at two steps, extrapolated (Richardson): O(step^6). The step is the one
/// of several, all powers of two times `scale`, whose error is smallest.
Difference difference(const Line& f, std::span<const double> v, std::span<const double> noise,
                      double scale);

}  // namespace heed::autograd
