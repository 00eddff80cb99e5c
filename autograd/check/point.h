// A function, the point x at which it is checked, and its derivatives on lines through x. All
// values are plain doubles.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "autograd/base/shape.h"
#include "autograd/check/array_layout.h"
#include "autograd/check/check_vjp.h"
#include "autograd/check/differences.h"
#include "autograd/check/report.h"
#include "autograd/tensor/random.h"

namespace heed::autograd {

/// The elements of all inputs, of all gradients or of all outputs, concatenated.
/// Each array is in row-major order.
using Values = std::vector<double>;

/// Derivative of each output along one direction, computed without differences: by dual numbers, or
/// by a given derivative such as a jvp.
struct ExactDerivative {
  Values derivative;  ///< one element for each output
  Values terms;       ///< for each output, the sum of the absolute values of the derivative's terms
};

/// Calls of foreign code, whose results may depend on more than the values of the arguments.
struct ForeignCalls {
  std::string caller;    ///< heed_problem::caller (heed_check.h)
  unsigned layouts = 0;  ///< heed_problem::layouts
  /// Calls forward at x or, if v is not null, backward without a call of forward before it.
  /// `placed` names one array and its layout.
  std::function<Values(const Values& x, const Values* v, const PlacedArray& placed)> call;
  bool single_use = false;   ///< true if backward has refused a second call after one forward
  bool undefined = false;    ///< true if the last call returned HEED_UNDEFINED
  std::string changed = {};  ///< the first array that a call changed, as text; "" if there is none
};

/// Words of messages for the parts of a CheckedFunction.
struct FunctionNames {
  std::string forward = "forward", backward = "backward", output = "output";
};

/// A function of several inputs, the point x at which it is checked, and its derivatives.
struct CheckedFunction {
  std::vector<Shape> inputs;   ///< shape of each input
  std::vector<Shape> outputs;  ///< shape of each output
  Values x;                    ///< the elements of all inputs
  /// Returns the elements of all outputs at x.
  std::function<Values(const Values& x)> forward;
  /// Returns J(x)^T v, where J is the Jacobian of forward and v is a cotangent of the outputs. If
  /// the function is empty, `exact` is checked instead.
  std::function<Values(const Values& x, const Values& v)> backward;
  /// Returns J(x) * tangent, computed without a step size: by dual numbers, or by a given jvp. The
  /// function is empty if there is neither.
  std::function<ExactDerivative(const Values& x, const Values& tangent)> exact = {};
  /// The calls of foreign code; they must outlive this object. Null if forward and backward get
  /// copies of the values.
  ForeignCalls* foreign = nullptr;
  /// Returns the gradient of the dot product of backward(x, v) with t, with respect to x and then
  /// to v. May be empty, or throw NoSecondDerivative.
  std::function<Values(const Values& x, const Values& v, const Values& t)> backward2 = {};
  /// True if `exact` is a derivative that is checked itself. It may have rounding errors that its
  /// terms do not show.
  bool exact_is_given = false;
  /// Assumed lower limit of the rounding noise of each output. May be empty.
  Values least_noise = {};
  double forward_error = 0;  ///< assumed lower limit of the noise of all outputs
  FunctionNames names = {};
  double roundoff = 0x1p-53;  ///< unit roundoff of the numbers of the function, such as 2^-24
  /// Returns true if the function computes in float or in less; x then has only such values.
  bool single() const { return roundoff > 0x1p-53; }
  /// Returns the argument `scale` of measure_noise(), which evaluates points that are
  /// 2^-26 * scale apart. In float, more distant points are needed, because float has 24 bits.
  double noise_spread() const { return single() ? 0x1p9 : 1; }
  /// Returns the smallest positive float if single() is true, otherwise the smallest positive
  /// double. Numbers near it have few digits.
  double smallest() const { return single() ? 0x1p-149 : 0x1p-1074; }
};

/// Number of rounding errors allowed in a sum of terms, because two right functions may add the
/// terms in different orders.
inline constexpr double kRoundings = 0x1p10;

/// Returns true if x is infinite or NaN.
inline bool is_not_finite(double x) { return !std::isfinite(x); }
/// Returns the largest absolute value, or 0 if there is none.
double largest_of(std::span<const double> values);
/// Returns a with each element multiplied by a factor.
Values times(Values a, double factor);
/// Returns n random numbers with random signs and absolute values in [0.5, 1.5). None is near 0, so
/// each output has an effect. Each number is exactly representable as a float.
Values random_cotangent(std::size_t n, Generator& random);

/// Returns a jvp as CheckedFunction::exact. Each tangent is also passed 64 times larger and 1024
/// times smaller, and the derivative that differs most is returned. If jvp is linear, there is no
/// difference.
std::function<ExactDerivative(const Values& x, const Values& tangent)> jvp_oracle(
    const std::function<Values(const Values& x, const Values& tangent)>& jvp);

/// Checks all derivatives that `f` has, as check_derivatives() does, with its options and errors;
/// the shapes are those of `f`.
CheckReport check_function(CheckedFunction f, const CheckOptions& options);

/// A direction in which entries of x move together. At distance t along it, entry k has moved from
/// x[k] to x[k] + t * by, for each pair (k, by) of `moves`.
struct Direction {
  CheckedEntry entry;  ///< the single entry that moves, or the input of a random direction
  /// Pairs (k, by): entry k moves by t * by.
  std::vector<std::pair<std::size_t, double>> moves = {};
  /// Returns the number by which a derivative along this direction is divided. If only entry k
  /// moves, the number is the distance `by` of its pair, so that the quotient is the partial
  /// derivative with respect to x[k]. Otherwise it is 1.
  double unit() const { return entry.at == CheckedEntry::kDirection ? 1 : moves[0].second; }
  /// Returns the dot product of a gradient with this direction, divided by unit().
  double dot(const Values& gradient) const;
  /// Returns x moved by t along this direction.
  Values from(Values x, double t) const;
};

/// Comparisons along one direction share it.
using Along = std::shared_ptr<const Direction>;

/// The derivatives of all outputs along one direction, by one oracle.
struct OutputSlopes {
  Along along;                 ///< the direction
  std::vector<Difference> of;  ///< of each output; the exact oracle sets value, error and moves
  Values terms;                ///< for each output, the sum of the absolute values of its terms
  Values exact;                ///< derivatives by CheckedFunction::exact, if given
};

/// A function at the point f.x.
struct Point {
  CheckedFunction f;                      ///< the function and x
  std::vector<std::size_t> starts = {0};  ///< index at which each input starts, then the size of x
  Values typical;                         ///< typical absolute value of the entries of each input
  Generator random;                       ///< source of all random numbers of a check
  const Steps steps;                      ///< steps of differences
  Values y;                               ///< outputs at x
  Values noise;                           ///< rounding noise of each output

  Point(CheckedFunction function, std::uint64_t seed);
  CheckedEntry entry_at(std::size_t k) const;
  /// Returns the name of element o of all outputs: "output [3]", or "output 1 at [3]" if there are
  /// several outputs.
  std::string output_name(std::size_t o) const;
  /// Returns the smallest power of two above |x[k]|, or above the typical one of the input if x[k]
  /// is 0.
  double own_scale(std::size_t k) const;
  /// Returns the direction in which only entry k moves. The default of `by` is own_scale(k).
  Along along_entry(std::size_t k, double by = 0) const;
  /// Returns a direction in which all entries of one input move, by default those of all inputs.
  Direction random_direction(std::optional<std::size_t> input = {});
  /// Returns x moved by t along a direction, with numbers of the type of the function.
  Values shifted(const Direction& along, double t) const;
  /// Returns f on the line through x.
  Line line_along(const Direction& along) const;
  /// `repeated` is that of differences(). In float it is always true.
  std::vector<Difference> differences_along(const Direction& along, bool repeated = false) const;
  OutputSlopes slopes(Oracle oracle, const Along& along, bool repeated = false) const;
  /// Returns the result of backward, or nothing if jvp is checked.
  Values gradient_for(const Values& v) const;
  /// Returns the derivative of the dot product of v with the outputs along a direction, by
  /// backward, whose result for v is `gradient`, or by jvp.
  double given(const OutputSlopes& slopes, const Values& v, const Values& gradient) const;

  /// Returns the rounding noise of each output.
  Values noise_of_forward();
  /// Returns the error that rounding inside backward causes in each entry of the gradient for v.
  Values noise_of_backward(const Values& v);
  /// Returns the rounding noise of values of g that are differences of far larger numbers, as log(1
  /// + q) is if q is 1e-20, and 0 for the others. Such a value has the same bits at all points near
  /// x, or moves in jumps. Its noise is at most that of the largest value at a distance of the
  /// inputs' own sizes.
  Values noise_of_still(const std::function<Values(const Values& x)>& g);
};

}  // namespace heed::autograd
