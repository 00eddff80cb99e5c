// Central differences of any function on vectors of double, with a bound of their error.
// This file does not use tensors.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace heed::autograd {

/// A function on a line: returns the outputs at x + t u, for some x and u.
/// The number of outputs is the same for every t.
using Line = std::function<std::vector<double>(double t)>;

/// The derivative of <v, f> along a line, with an estimate of its error.
struct Difference {
  double value = 0;
  /// Bound of |value - derivative|:
  /// the distance between the results of two steps, plus the noise of f at that step.
  double error = 0;
  double terms = 0;       ///< sum over the outputs o of |v_o * (derivative of f_o)|
  double step = 0;        ///< step of t. f is evaluated at +-step/2, +-step and +-2 step
  bool kink = false;      ///< the left slope and the right slope differ at every step
  double jump = 0;        ///< sum over the outputs of |v_o * (right slope - left slope)|, at step/2
  double jump_noise = 0;  ///< a jump up to this size may be caused by the noise of f
};

/// Returns the rounding noise of each output at t = 0, and at least `epsilon` times the output's
/// absolute value. The noise is read from high-order differences of points so close together that
/// f is a straight line between them (Hamming, Introduction to Applied Numerical Analysis, ch. 6).
/// `scale` is a distance of t over which f changes significantly.
std::vector<double> measure_noise(const Line& f, double scale, double epsilon);

/// Returns four-point differences at two steps, extrapolated (Richardson), with an error of
/// O(step^6). Several steps are tried, all powers of two times `scale`, and the one with the
/// smallest error is used. `noise` is the result of measure_noise().
Difference difference(const Line& f, std::span<const double> v, std::span<const double> noise,
                      double scale);

}  // namespace heed::autograd
