// Central differences of any function on vectors of double, with an estimate of their error. This
// file does not use tensors.
#pragma once

#include <cstdint>
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
  double step = 0;         ///< step of t. f is evaluated at about +-step/2, +-step and +-2 step
  bool kink = false;       ///< true if the output seems to have a kink at t = 0
  bool moves = false;      ///< false if the output has the same bits at all points
  bool is_fast = false;    ///< true if f varies faster than the smallest step; then `kink` is true
  double jump = 0;         ///< |right slope - left slope|, at about step/2
  double jump_noise = 0;   ///< a jump up to this size may be caused by the noise of f
  bool is_steady = false;  ///< true if two steps have found a kink with similar jumps
  /// Half the distance of the left slope and the right slope, plus its estimated error, if there is
  /// a kink. Both slopes are between value - reach and value + reach. Infinite from differences()
  /// if the kink is not steady: f may only vary faster than the steps.
  double reach = 0;
};

/// Returns the part of a difference's error that noise of f causes at a step.
double least_error(double noise, double step);

/// Returns an estimate of the rounding noise of each output at t = 0. The estimate is at least
/// `epsilon` times the output's absolute value. It is computed from high-order differences of
/// points that are so close together that f without noise is a straight line between them (Hamming,
/// Introduction to Applied Numerical Analysis, ch. 6). If f varies so fast that this is false, the
/// points are closer together. `scale` is a distance of t over which f changes significantly.
std::vector<double> measure_noise(const Line& f, double scale, double epsilon);

/// Returns for each output the noise that jumps cause at points up to 2^-7 apart, or 0 if it falls
/// like that of a smooth function, by 2^4, each time the points are half as far apart.
std::vector<double> measure_jumps(const Line& f);

/// The distances of t at which f is evaluated, as fractions of a scale. They are random. If the
/// distances of a step were multiples of one number, a periodic function could have equal phases at
/// all of them, and would look like a slower function. They have so few bits that their sum with a
/// number of the size of the scale is exact.
struct Steps {
  struct Step {
    double size;          ///< the step, a power of two
    double distances[3];  ///< about size/2, size and 2 size
  };
  bool single;            ///< true if f computes in float
  std::vector<Step> all;  ///< the steps, in the order in which they are tried
  explicit Steps(std::uint64_t seed = 1, bool single = false);
  /// Returns the widest step at which kinks are found. It suffices to find a kink that is at t = 0.
  Steps first() const;
  /// Returns the unit roundoff of float or double.
  double roundoff() const { return single ? 0x1p-24 : 0x1p-53; }
};

/// Returns the derivative of each output by Richardson extrapolation from the differences at the
/// three distances of a step. The truncation error is O(step^6). Tries several steps, as multiples
/// of `scale`, and returns for each output the result with the smallest estimated error. `noise` is
/// the result of measure_noise(). A result without a kink is preferred. If two steps contradict
/// each other, the smaller step is right. If the output does not move at the smaller step, the
/// error is at least the other value: either may be right. If `repeated` is true, the search is
/// repeated with 0.75 and 0.625 times the steps, and the error is at least twice the distance to
/// each of the two other results.
std::vector<Difference> differences(const Line& f, std::span<const double> noise, double scale,
                                    const Steps& steps = Steps(), bool repeated = false);

}  // namespace heed::autograd
