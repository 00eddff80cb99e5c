// The core of gradcheck and check_vjp: a backward pass on plain values against measured
// differences and, for heed's own ops, an exact oracle. The callers supply the functions.
#pragma once

#include <functional>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "autograd/base/shape.h"
#include "autograd/check/differences.h"
#include "autograd/check/report.h"
#include "autograd/tensor/random.h"

namespace heed::autograd {

/// The elements of all inputs, of all their gradients or of all outputs, one after the other in
/// row-major order.
using Values = std::vector<double>;

/// Of each output: the derivative along a direction, and the sum of the absolute values of its
/// terms.
struct ExactDerivative {
  Values derivative, terms;
};

/// What is checked: a function of several inputs, at x.
struct CheckedFunction {
  std::vector<Shape> inputs;
  Shape output;
  Values x;
  std::function<Values(const Values& x)> forward;
  /// J(x)^T v
  std::function<Values(const Values& x, const Values& v)> backward;
  /// An oracle without a step size, if there is one.
  std::function<ExactDerivative(const Values& x, const Values& tangent)> exact = {};
  bool single = false;  ///< it computes in float; every x is a float
};

/// How much a check does.
struct CheckEffort {
  std::int64_t entries[2] = {};  ///< to compare one by one, by oracle; 0: the oracle is not used
  std::int64_t fewest = 1;       ///< entries of each input, if it has as many
  /// The largest tolerance, of its terms, of an entry that counts as checked.
  double resolved = 0x1p-16;
};

/// Entries of x that move together: x[k] + t * by.
struct Direction {
  CheckedEntry entry;  ///< its place, or that of the input
  std::vector<std::pair<std::size_t, double>> moves;
  /// What derivatives along it are divided by: an entry's own move, so that its derivative is left.
  double unit() const { return entry.at == CheckedEntry::kDirection ? 1 : moves[0].second; }
  double dot(const Values& gradient) const;
  Values from(Values x, double t) const;
};

/// One comparison, and what it takes to repeat it with another gradient.
struct Comparison : CheckedEntry {
  std::size_t cotangent = 0;
  double rounding = 0;  ///< how far two right gradients can be apart
  Direction along;
  bool on_kink = false;   ///< the slopes from the left and from the right differ
  bool resolved = false;  ///< the oracle can tell the entry from rounding
  bool passes(double value) const;
  bool passes() const { return passes(given); }
};

/// Signs at random, sizes in [0.5, 1.5) that float holds exactly: each output counts.
Values random_cotangent(std::size_t n, Generator& random);

/// Checks one function at one order and writes its findings into a report.
class Checker {
 public:
  Checker(CheckedFunction f, const CheckEffort& effort, std::uint64_t seed, int order,
          CheckReport& report);
  /// Compares entries and directions. Where slopes differ, x is moved and all is compared again.
  void run();
  /// The values at which f was checked: the given ones, or beside their kinks.
  const Values& x() const { return f_.x; }
  const std::vector<Comparison>& comparisons() const { return comparisons_; }
  /// Of each cotangent.
  const std::vector<Values>& gradients() const { return gradients_; }

 private:
  void fail(const std::string& message) { report_.refuse(Verdict::kWrong, message); }
  OracleReport& by(Oracle oracle) { return report_.oracles[order_ - 1][int(oracle)]; }
  CheckedEntry entry_at(std::size_t k) const;
  /// The first value for which `bad` holds, as "input 0 at [3]"; empty if there is none.
  std::string find_in_inputs(const Values& values, bool (*bad)(double)) const;
  double own_scale(std::size_t k) const;
  Direction random_direction(std::size_t begin, std::size_t end);
  Values shifted(const Direction& along, double t) const;
  Line line_along(const Direction& along) const;
  const ExactDerivative& exact(const Direction& along);
  double noise_along(std::size_t cotangent, const Direction& along);

  bool prepare();
  void run_backward(const Values& y);
  void check_by(Oracle oracle);
  std::int64_t sample_size(std::int64_t n, std::int64_t count) const;
  bool compare_entries(Oracle oracle, std::int64_t count);
  bool compare_direction(Oracle oracle, const Direction& along);
  /// One comparison for each cotangent.
  std::vector<Comparison> compare(Oracle oracle, const Direction& along);
  bool keep(const std::vector<Comparison>& found);
  void judge(Oracle oracle, std::size_t first);
  std::string reason(Oracle oracle, const Comparison& worst);
  void move(const Direction& along);

  CheckedFunction f_;
  const CheckEffort effort_;
  const int order_;
  Generator random_;
  CheckReport& report_;
  std::vector<std::size_t> starts_;  // of each input in x, and the end
  Values typical_;                   // of each input, the scale of its entries
  Values noise_;                     // of each output
  std::vector<Values> cotangents_, gradients_;
  std::map<std::size_t, Values> gradient_noise_;  // by cotangent
  std::vector<Direction> directions_;             // one of each input
  std::vector<Comparison> comparisons_;
  std::vector<Direction> kinks_;
  std::map<std::tuple<std::int64_t, std::size_t, double>, ExactDerivative> exact_;
};

}  // namespace heed::autograd
