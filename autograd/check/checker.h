// The class Checker, on which gradcheck and check_vjp are built. It compares the results of a
// backward pass with central differences and, for functions of heed, with an exact oracle:
// derivatives that are computed independently of the backward pass. All values are plain doubles.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
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
  bool single = false;  ///< true if the function computes in float; x then has only float values
  double other_roundoff = 0;  ///< if not 0, roundoff() returns this number
  /// Returns the unit roundoff of float or double, or other_roundoff.
  double roundoff() const {
    return other_roundoff > 0 ? other_roundoff : single ? 0x1p-24 : 0x1p-53;
  }
  /// Returns the argument `scale` of measure_noise(), which evaluates points that are
  /// 2^-26 * scale apart. In float, more distant points are needed, because float has 24 bits.
  double noise_spread() const { return single ? 0x1p9 : 1; }
  /// Returns the smallest positive float if `single` is true, otherwise the smallest positive
  /// double. Numbers near it have few digits.
  double smallest() const { return single ? 0x1p-149 : 0x1p-1074; }
};

/// Number of entries that a check compares, and the precision that it requires.
struct CheckEffort {
  /// Number of entries to compare one by one, indexed by oracle. If it is 0, the oracle is not
  /// used.
  std::int64_t entries[2] = {};
  /// Smallest number of entries to compare for each input. If an input has fewer entries, all of
  /// them are compared.
  std::int64_t fewest = 1;
  /// An entry counts as checked if its tolerance is at most this fraction of CheckedEntry::terms.
  double resolved = 0x1p-16;
};

/// A direction in which entries of x move together. At distance t along it, entry k has moved from
/// x[k] to x[k] + t * by, for each pair (k, by) of `moves`.
struct Direction {
  CheckedEntry entry;  ///< the single entry that moves, or the input of a random direction
  std::vector<std::pair<std::size_t, double>> moves;  ///< pairs (k, by): entry k moves by t * by
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

/// One comparison, with all data that are needed to repeat it for another gradient.
struct Comparison : CheckedEntry {
  std::size_t cotangent = 0;  ///< index of the cotangent
  double rounding = 0;        ///< difference of two right gradients that rounding can cause
  Along along;                ///< the direction in which the gradient is compared
  double reach = 0;           ///< on a kink, gradients up to this far from `expected` are right
  bool on_kink = false;       ///< true if the left slope and the right slope differ
  bool is_fast = false;       ///< Difference::is_fast of an output
  bool resolved = false;      ///< true if the oracle can distinguish the entry from rounding errors
  /// Returns true if `value` differs from `expected` by at most the tolerance.
  bool passes(double value) const;
  /// Returns true if `given` differs from `expected` by at most the tolerance.
  bool passes() const { return passes(given); }
  /// Returns true if `given` is not between the derivatives on the two sides of a kink.
  bool is_beyond_kink() const { return on_kink && std::abs(given - expected) > reach + rounding; }
};

/// The derivatives of all outputs along one direction, by one oracle.
struct OutputSlopes {
  Along along;                 ///< the direction
  std::vector<Difference> of;  ///< of each output; the exact oracle sets value, error and moves
  Values terms;                ///< for each output, the sum of the absolute values of its terms
  Values exact;                ///< derivatives by CheckedFunction::exact, if given
};

/// Number of rounding errors allowed in a sum of terms, because two right functions may add the
/// terms in different orders.
inline constexpr double kRoundings = 0x1p10;

/// Returns a with each element multiplied by a factor.
Values times(Values a, double factor);
/// Returns n random numbers with random signs and absolute values in [0.5, 1.5). None is near 0, so
/// each output has an effect. Each number is exactly representable as a float.
Values random_cotangent(std::size_t n, Generator& random);

/// Checks the gradients of one function, or its jvp if it has no backward pass. Writes the findings
/// into a report, as those of the given order.
class Checker {
 public:
  Checker(CheckedFunction f, const CheckEffort& effort, std::uint64_t seed, int order,
          CheckReport& report);
  /// Compares entries and directions. If entries are on a kink, moves them and repeats all
  /// comparisons, and once more on the other side of their kinks. An entry that stays on a kink is
  /// counted in the report, and compared only for the outputs that have no kink.
  void run();
  /// Returns the function at the point at which it was checked: the given x, or x moved off its
  /// kinks.
  const CheckedFunction& function() const { return f_; }
  const std::vector<Comparison>& comparisons() const { return comparisons_; }
  /// Returns the result of backward for each cotangent.
  const std::vector<Values>& gradients() const { return gradients_; }
  /// Checks the calls of the function, as check_calls() (call_checks.h). Removes the
  /// comparisons, and all gradients but the first.
  void check_calls();
  /// Compares the gradient along one random direction at another point: that with the inputs in
  /// reversed order (reversed_inputs()). A mask that is kept from the first forward is right only
  /// at x().
  void check_elsewhere();
  /// Returns true if no compared output moves with this input near x(), and its first change far
  /// from x() is a jump.
  bool is_staircase(std::size_t input);
  /// Returns the gradients, and the right values of the entries that were compared in all of them.
  /// The result refers to this checker.
  ComparedGradient compared_gradient();

 private:
  void fail(const std::string& message) { report_.refuse(Verdict::kWrong, message); }
  OracleReport& by(Oracle oracle) { return report_.oracles[order_ - 1][int(oracle)]; }
  CheckedEntry entry_at(std::size_t k) const;
  /// Returns the name of element o of all outputs: "output [3]", or "output 1 at [3]" if there are
  /// several outputs.
  std::string output_name(std::size_t o) const;
  double own_scale(std::size_t k) const;
  /// Returns the direction in which only entry k moves. The default of `by` is own_scale(k).
  Along along_entry(std::size_t k, double by = 0) const;
  Direction random_direction(std::size_t begin, std::size_t end);
  Values shifted(const Direction& along, double t) const;
  Line line_along(const Direction& along) const;
  /// `repeated` is that of differences(). In float it is always true.
  OutputSlopes slopes(Oracle oracle, const Along& along, bool repeated = false);
  Values noise_of_forward();
  Values noise_of_still(const std::function<Values(const Values& x)>& f);
  Values noise_of_backward(const Values& v, const Values& gradient, bool limited = true);
  /// Returns the result of backward at x, or nothing if jvp is checked.
  Values gradient_for(const Values& v) const;
  /// Returns the derivative of the dot product of v with the outputs along a direction, by
  /// backward, whose result for v is `gradient`, or by jvp.
  double given(const OutputSlopes& slopes, const Values& v, const Values& gradient) const;

  bool prepare();
  void add_cotangents(std::size_t outputs);
  void add_quiet_cotangents();
  void run_backward(const Values& v);
  double roundoff_of_outputs();
  void check_linearity();
  void check_by(Oracle oracle);
  std::int64_t sample_size(std::size_t input, std::int64_t count) const;
  std::vector<std::size_t> sample(std::size_t input, std::int64_t taken, int draw = 0) const;
  std::vector<bool> kinks_along(const Direction& along) const;
  bool shares_kink(const Direction& along);
  bool contradicts_others(const Along& along);
  bool compare_entry(Oracle oracle, std::size_t k);
  bool compare_smooth_outputs(std::size_t k);
  bool compare_entries(Oracle oracle, std::int64_t count);
  bool compare_direction(Oracle oracle, std::size_t i, bool repeated = false);
  void find_wrong_entry(Oracle oracle, const Direction& along, std::size_t cotangent,
                        const Values& v, const Values& g);
  Comparison compare(const OutputSlopes& slopes, std::size_t cotangent, const Values& v,
                     const Values& gradient, Values& noise);
  /// Returns one comparison for each cotangent.
  std::vector<Comparison> compare_all(const OutputSlopes& slopes);
  bool keep(const std::vector<Comparison>& found);
  void judge(Oracle oracle, std::size_t first);
  std::string reason(Oracle oracle, const Comparison& worst);
  bool move_off_kinks();

  CheckedFunction f_;
  const CheckEffort effort_;
  const int order_;
  Generator random_;
  const Steps steps_;
  CheckReport& report_;
  std::vector<std::size_t> starts_;  // index in x at which each input starts, then the size of x
  Values typical_;                   // typical absolute value of the entries of each input
  Values y_;                         // outputs at x
  Values noise_;                     // rounding noise of forward, for each output
  Values still_noise_;               // noise_of_still(forward); empty: not measured
  std::vector<Values> cotangents_, gradients_;
  std::vector<Values>
      gradient_noise_;             // noise of backward, for each cotangent; empty: not measured
  std::vector<bool> hides_;        // for each input, true if an output could hide a gradient
  std::vector<Along> directions_;  // a random direction for each input
  std::vector<std::vector<bool>> kinked_;  // for each direction, the outputs on a kink
  std::vector<Comparison> comparisons_;
  bool refuted_ = false;               // true if an entry failed with repeated differences
  std::set<std::size_t> compared_[2];  // entries that were compared, by oracle
  std::vector<Along> kinks_;
  int searches_ = 0;  // number of times that entries on a kink were searched
  struct Moved {
    double from;    // its value in the given x
    int times = 0;  // number of times that it was moved
  };
  std::map<std::size_t, Moved> moved_;  // entries that were moved off a kink
  std::map<std::size_t, bool> stuck_;   // entries that stay on a kink; true: Difference::is_fast
  bool mirrored_ = false;  // true if the entries were moved to the other sides of their kinks
};

/// Returns a jvp as CheckedFunction::exact. Each tangent is also passed 64 times larger and 1024
/// times smaller, and the derivative that differs most is returned. If jvp is linear, there is no
/// difference.
std::function<ExactDerivative(const Values& x, const Values& tangent)> jvp_oracle(
    const std::function<Values(const Values& x, const Values& tangent)>& jvp);

/// Checks all derivatives that `f` has, as check_derivatives() does, with its options and errors;
/// the shapes are those of `f`.
CheckReport check_function(CheckedFunction f, const CheckOptions& options);

}  // namespace heed::autograd
