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

/// The derivative of one output along a line at t = 0, with an estimate of its error.
struct Difference {
  double value = 0;
  /// Estimated bound on |value - derivative|: the difference between the estimates from the near
  /// points and from the far points, plus the error that the noise of f causes at this step.
  double error = 0;
  double step = 0;        ///< step of t. f is evaluated at +-step/2, +-step and +-2 step
  bool kink = false;      ///< true if the output seems to have a kink at t = 0
  bool moves = false;     ///< false if the output has the same bits at all points
  double jump = 0;        ///< |right slope - left slope|, at step/2
  double jump_noise = 0;  ///< a jump up to this size may be caused by the noise of f
  /// Half the distance of the left slope and the right slope, plus its estimated error, if there is
  /// a kink. Both slopes are between value - reach and value + reach.
  double reach = 0;
};

/// Returns an estimate of the rounding noise of each output at t = 0. The estimate is at least
/// `epsilon` times the output's absolute value. It is computed from high-order differences of
/// points that are so close together that f without noise is a straight line between them (Hamming,
/// Introduction to Applied Numerical Analysis, ch. 6). `scale` is a distance of t over which f
/// changes significantly.
std::vector<double> measure_noise(const Line& f, double scale, double epsilon);

/// Returns the derivative of each output by Richardson extrapolation from the four-point
/// differences at two steps. The truncation error is O(step^6). `noise` is the result of
/// measure_noise(). `single` is true if f computes in float.
std::vector<Difference> differences_at(const Line& f, std::span<const double> noise, double step,
                                       bool single);

/// Returns the derivative of each output as differences_at() does. Tries several steps, which are
/// powers of two times `scale`, and returns for each output the result with the smallest estimated
/// error. A result without a kink is preferred. Much smaller steps are tried only if the others do
/// not suffice. If `single` is true, the points of f are rounded to float. Then steps that are too
/// small for float are left out. The search is also repeated with 0.75 and 0.625 times the steps,
/// and the error is at least twice the distance to each of the two other results.
std::vector<Difference> differences(const Line& f, std::span<const double> noise, double scale,
                                    bool single = false);

}  // namespace heed::autograd
