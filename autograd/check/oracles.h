// What gradcheck asks its oracles: the derivative of <v, f> at a point in one direction, and how
// far the answer can be trusted.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "autograd/check/differences.h"
#include "autograd/check/gradcheck.h"

namespace heed::autograd::oracles {

using Tensors = std::vector<Tensor>;
using Values = std::vector<double>;

/// The inner product of two lists of the same length.
double dot(const Values& a, const Values& b);

/// f(xs), unrecorded.
Tensor call(const DifferentiableFunction& f, Args xs);

/// f(xs) in tracked numbers (base/tracked.h): its derivative along `tangents`, and the terms of it.
std::vector<Tracked> call_tracked(const DifferentiableFunction& f, Args xs, Args tangents);
/// The elements of a tracked64 or float64 tensor.
std::vector<Tracked> tracked_values(const Tensor& y);

/// A direction in the space of the inputs: one entry, or all of them at random.
struct Direction {
  std::ptrdiff_t input;  ///< -1: all
  std::int64_t at = 0;   ///< row-major place in that input
  Tensors tangents;
  double scale = 1;  ///< the t over which f(x + t * tangents) may change much
};
Direction one_entry(Args xs, std::size_t input, std::int64_t at);
Direction all_entries(Args xs, Generator& random);
/// At most `count` entries, (input, place), evenly spread over the inputs.
std::vector<std::pair<std::size_t, std::int64_t>> spread(Args xs, std::int64_t count,
                                                         Generator& random);

/// A function at a point, with a cotangent v.
struct Point {
  DifferentiableFunction f;
  Tensors xs;
  Tensor v;
  Values value;       ///< f(xs)
  Values noise = {};  ///< of each output

  /// f at x + t u, in values
  Line line(const Direction& u) const;
  /// By dual numbers, once per direction: both oracles ask for it.
  struct DualAnswer {
    double derivative = 0, terms = 0;
  };
  const DualAnswer& dual(const Direction& d) const;
  mutable std::map<std::pair<std::ptrdiff_t, std::int64_t>, DualAnswer> answers = {};
};

/// J^T v by the engine, for every input.
Tensors engine_gradients(const DifferentiableFunction& f, Args xs, const Tensor& v);

/// The entry as the engine has it, from the gradients of all inputs.
GradientEntry engine_entry(const Direction& d, Args gradients);
/// What the oracle has in its place, and how sure it is; `use_dual`: dual numbers tell the size of
/// its terms. True if f has a kink there.
bool ask(Oracle oracle, const Point& p, const Direction& d, bool use_dual, GradientEntry& entry);

}  // namespace heed::autograd::oracles
