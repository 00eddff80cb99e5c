// Checks of a function's calls that need no derivatives: whether results depend on the memory
// layout of the arrays, or on earlier calls.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/check/point.h"

namespace heed::autograd {

/// Returns the position of the element where `got` differs most from `expected`, in multiples of
/// the difference that rounding explains; nullopt if rounding explains all differences. `got` and
/// `expected` are the elements of arrays of these shapes. Rounding explains 2^10 roundings
/// (f.roundoff) of the element, or of 1/8 of the array's largest element if that is larger. If
/// this does not suffice, `noise` is called, and 4 times its result is added. A NaN is always a
/// difference. If `expected` may be a difference of larger terms, `scale` has elements of their
/// size.
std::optional<std::size_t> find_difference(const Values& got, const Values& expected,
                                           const std::vector<Shape>& shapes,
                                           const CheckedFunction& f,
                                           const std::function<Values()>& noise,
                                           const Values* scale = nullptr);

/// Returns f.x with each input in reversed order. Unless `all` is true, an input whose rows are all
/// in ascending or all in descending order, such as a grid, stays as it is.
Values reversed_inputs(const CheckedFunction& f, bool all);

/// Returns the name of element k of arrays of these shapes, such as "input 0 at [3]" for the kind
/// "input".
std::string element_name(const char* kind, const std::vector<Shape>& shapes, std::size_t k);

/// The results of a call that are known to be right.
struct RightCall {
  const Values& v;         ///< cotangent
  const Values& outputs;   ///< outputs of the function
  const Values& gradient;  ///< gradient for v
  const Values& noise;     ///< noise of the outputs
  /// Returns the noise of `gradient`, the gradient for v, at each entry.
  std::function<Values(const Values& v, const Values& gradient)> gradient_noise;
};

/// Checks each layout that the caller of f accepts, and four kinds of repeated calls, at f.x.
/// Counts them in the report, and refuses with kWrong if one of them fails.
void check_calls(const CheckedFunction& f, const RightCall& right, CheckReport& report);

}  // namespace heed::autograd
