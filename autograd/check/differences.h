// Central differences of any function on vectors of double, with an estimate of their error. This
// file does not use tensors.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace heed::autograd {

/// A function f on a line: returns the outputs f(x + t u) for a fixed point x and a fixed direction
/// u. The number of outputs is the same for every t.
using Line = std::function<std::vector<double>(double t)>;

/// The derivative of <v, f>, the sum of v_o * f_o over the outputs o, along a line at t = 0, with
/// an estimate of its error.
struct Difference {
  double value = 0;
  /// Estimated bound on |value - derivative|: the distance between the results of two steps, plus
  /// the error that the noise of f causes at these steps.
  double error = 0;
  double terms = 0;       ///< sum over the outputs o of |v_o * (derivative of f_o)|
  double step = 0;        ///< step of t. f is evaluated at +-step/2, +-step and +-2 step
  bool kink = false;      ///< true if f seems to have a kink at t = 0
  double jump = 0;        ///< sum over the outputs of |v_o * (right slope - left slope)|, at step/2
  double jump_noise = 0;  ///< a jump up to this size may be caused by the noise of f
};

/// Returns an estimate of the rounding noise of each output at t = 0. The estimate is at least
/// `epsilon` times the output's absolute value. It is computed from high-order differences of
/// points that are so close together that f without noise is a straight line between them (Hamming,
/// Introduction to Applied Numerical Analysis, ch. 6). `scale` is a distance of t over which f
/// changes significantly.
std::vector<double> measure_noise(const Line& f, double scale, double epsilon);

/// Returns the derivative by Richardson extrapolation from the four-point differences at two steps.
/// The truncation error is O(step^6). Tries several steps, which are powers of two times `scale`.
/// Returns the result with the smallest estimated error. A result without a kink is preferred.
/// Much smaller steps are tried only if these do not suffice.
/// `noise` is the result of measure_noise(). If `single` is true, the points of f are rounded to
/// float, and no step is used that is too small for them.
Difference difference(const Line& f, std::span<const double> v, std::span<const double> noise,
                      double scale, bool single = false);

}  // namespace heed::autograd
