// The class Checker, on which gradcheck and check_vjp are built, and its parts. It compares the
// results of a backward pass with central differences and, for functions of heed, with an exact
// oracle: derivatives that are computed independently of the backward pass.
#pragma once

#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "autograd/check/diagnosis.h"
#include "autograd/check/point.h"

namespace heed::autograd {

/// The entries of x that are or were on a kink, where f has no derivative, at all points to which
/// they were moved.
class Kinks {
 public:
  explicit Kinks(Point& point) : point_(point) {}
  /// Returns for each output whether it seems to have a kink along a direction.
  std::vector<bool> along(const Direction& direction) const;
  /// Returns true if an output with a kink along the direction of one entry also has a kink where
  /// the other entries move. If three numbers are equal, as in a sort, then the derivatives on the
  /// two sides of a kink need not enclose the derivatives near it.
  bool are_shared(const Direction& direction) const;
  /// Returns true if the derivatives along other directions contradict that along the direction of
  /// one entry, because f has no derivative at x, or if backward has a derivative of an output with
  /// a kink along another direction. The median of equal numbers has no kink where only one of them
  /// moves. v is a cotangent.
  bool are_near(const Direction& direction, const Values& v) const;
  /// Adds the entry that moves along a direction. Returns true if it stays where it is, because it
  /// was moved several times before, or because an output varies too fast.
  bool stays(const Along& entry, bool is_fast);
  /// Returns true if entry k stays on a kink.
  bool is_stuck(std::size_t k) const { return stuck_.contains(k); }
  /// Returns true if an entry must be moved.
  bool any() const { return !found_.empty(); }
  /// Moves entries off their kinks by 3 to 6 % of their scale. The distance is random, so that two
  /// equal entries become different. If no entry is on a kink, moves all of them to the other sides
  /// of their kinks, at the same distance. Returns false if this was done before, or no entry was
  /// moved.
  bool move_off();
  /// Adds the entries to the report. Refuses with kVacuous if all entries of an input that were
  /// compared stay on a kink.
  void add_to(CheckReport& report, const std::set<std::size_t>& compared) const;
  int searches = 0;  ///< number of times that entries on a kink were searched

 private:
  struct Moved {
    double from;    // its value in the given x
    int times = 0;  // number of times that it was moved
  };
  Point& point_;
  std::vector<Along> found_;            // entries that must be moved
  std::map<std::size_t, Moved> moved_;  // entries that were moved off a kink
  std::map<std::size_t, bool> stuck_;   // entries that stay on a kink; true: Difference::is_fast
  bool mirrored_ = false;  // true if the entries were moved to the other sides of their kinks
};

/// Number of entries that a check compares, and the precision that it requires.
struct CheckEffort {
  /// Number of entries to compare one by one, indexed by oracle. If it is 0, the oracle is not
  /// used.
  Index entries[2] = {};
  /// Smallest number of entries to compare for each input. If an input has fewer entries, all of
  /// them are compared.
  Index fewest = 1;
  /// An entry counts as checked if its tolerance is at most this fraction of CheckedEntry::terms.
  double resolved = 0x1p-16;
};

/// A cotangent, and the result of backward for it.
struct Gradient {
  Values v;                   ///< the cotangent
  Values g;                   ///< the gradient; empty if jvp is checked
  std::size_t cotangent = 0;  ///< index of the cotangent, or of the one of which v is a part
  Values noise = {};  ///< error of each entry by rounding inside backward; empty: not measured
};

/// One comparison, with all data that are needed to repeat it for another gradient.
struct Comparison : CheckedEntry {
  std::size_t cotangent = 0;  ///< Gradient::cotangent
  Along along = {};           ///< the direction in which the gradient is compared
  double rounding = 0;        ///< difference of two right gradients that rounding can cause
  double reach = 0;           ///< on a kink, gradients up to this far from `expected` are right
  bool on_kink = false;       ///< true if the left slope and the right slope differ
  bool is_fast = false;       ///< Difference::is_fast of an output
  bool resolved = false;      ///< true if the oracle can distinguish the entry from rounding errors
  /// Returns true if `value` differs from `expected` by at most the tolerance.
  bool passes(double value) const;
  /// Returns true if `given` differs from `expected` by at most the tolerance.
  bool passes() const { return passes(given); }
};

/// Compares entries, random directions and groups of outputs at one point.
class Comparisons {
 public:
  Comparisons(Point& point, Kinks& kinks, const CheckEffort& effort, CheckReport& report)
      : point_(point), kinks_(kinks), effort_(effort), report_(report) {}
  /// Compares `gradients` with each oracle, and reports the worst comparison. If the gradient was
  /// refused before, compares entries with differences, to show which mistake explains it.
  void run();
  const std::vector<Comparison>& all() const { return all_; }
  /// Returns the numbers of the entries that were compared.
  const std::set<std::size_t>& compared() const { return compared_; }
  /// Returns the gradients, and the right values of the entries that were compared in all of them.
  /// The result refers to this object.
  ComparedGradient compared_gradient();

  std::vector<Gradient> gradients;  ///< what is compared

 private:
  // A random direction in which all entries of one input move.
  struct InputDirection {
    Along along;
    std::vector<bool> kinked;  // the outputs on a kink
  };

  void compare_by(Oracle oracle);
  Index sample_size(Oracle oracle, std::size_t input) const;
  std::vector<std::size_t> sample(std::size_t input, Index taken, int draw = 0) const;
  bool compare_entries(Oracle oracle);
  bool compare_entry(Oracle oracle, std::size_t k);
  std::vector<Comparison> compare_at_scales(Oracle oracle, std::size_t k, bool repeated);
  bool compare_smooth_outputs(std::size_t k);
  bool compare_direction(Oracle oracle, InputDirection& input, bool repeated = false);
  void find_wrong_entry(Oracle oracle, const Direction& along, Gradient& gradient);
  Comparison compare(const OutputSlopes& slopes, Gradient& gradient);
  Values noise_of(const Gradient& gradient) const;
  std::vector<Comparison> compare_all(const OutputSlopes& slopes);
  bool keep(const std::vector<Comparison>& found);
  void judge(Oracle oracle, std::size_t first);
  std::string reason(Oracle oracle, const Comparison& worst) const;

  Point& point_;
  Kinks& kinks_;
  const CheckEffort& effort_;
  CheckReport& report_;
  std::vector<InputDirection> directions_;
  std::vector<Comparison> all_;
  std::set<std::size_t> compared_;
  std::set<std::size_t> hides_;  // inputs of which an output could hide a gradient
  Values still_noise_;           // noise_of_still(forward); empty: not measured
  bool refuted_ = false;         // true if an entry failed with repeated differences
};

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
  /// Returns the point at which the function was checked: the given x, or x moved off its kinks.
  const Point& point() const { return point_; }
  /// Returns the comparisons at that point.
  Comparisons& comparisons() { return *comparisons_; }
  /// Checks the calls of the function, as check_calls() (call_checks.h). Removes the comparisons.
  void check_calls();
  /// Compares the gradient along one random direction at another point: that with the inputs in
  /// reversed order (reversed_inputs()). A mask that is kept from the first forward is right only
  /// at the point at which the function was checked.
  void check_elsewhere();
  /// Returns true if no compared output moves with this input near x, and its first change far from
  /// x is a jump.
  bool is_staircase(std::size_t input);

 private:
  bool prepare();
  void add_random_cotangents();
  void add_quiet_cotangents();
  void run_backward(const Values& v);
  void check_linearity();

  Point point_;
  const CheckEffort effort_;
  CheckReport& report_;
  Kinks kinks_{point_};
  std::optional<Comparisons> comparisons_;  // at the last point
};

}  // namespace heed::autograd
