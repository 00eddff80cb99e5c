// Check of functions in float16 and bfloat16. Differences of such functions consist of rounding, so
// the functions are compared with the same function in double.
#pragma once

#include <string>

#include "autograd/check/narrow_float.h"
#include "autograd/check/point.h"

namespace heed::autograd {

/// A floating-point type of 16 bits.
struct Precision {
  double roundoff;            ///< largest relative rounding error
  double smallest;            ///< smallest positive number
  double (*rounded)(double);  ///< returns the nearest number
};
/// Returns the precision of Float16 or BFloat16.
template <class T>
constexpr Precision precision_of() {
  constexpr bool is_float16 = std::is_same_v<T, Float16>;
  return {is_float16 ? 0x1p-11 : 0x1p-8, is_float16 ? 0x1p-24 : 0x1p-133,
          [](double x) { return double(T(x)); }};
}

/// Checks the outputs and the gradients of `given`, a function on numbers of the type, by those of
/// `reference`, the same function in double, at the same numbers. Both are run at given.x and at 63
/// further inputs near it, with random gradients of the outputs.
/// - R is the largest error in an array, divided by that of `plain`, which is the same function
///   computed in the type operation by operation. The divisor is at least one rounding of the
///   largest number of the array. The larger of two quotients counts: the error at given.x divided
///   by the largest error of `plain`, and the median error divided by the median of `plain`. R must
///   be at most 3.
/// - g = c g* is fitted over all inputs, where g is the result of `given` and g* that of
///   `reference`. The factor c must be 1 within 4 of its standard errors and half a rounding,
///   because intermediate results may be rounded in one direction. This finds a factor that differs
///   from 1 by less than a rounding. If c of `plain` differs from 1 by more than 4 standard errors,
///   the part above them is allowed in place of half a rounding, if it is larger: a constant, or a
///   long sum, has the same rounding error at each input.
///
/// The gradient of `reference` is itself checked before, in few entries. The verdict is kVacuous if
/// it is missing (without forward) or not right, if `plain` has errors so large that zeros would be
/// right, or if `given` has a second backward or a jvp, which are not checked. It is also kVacuous
/// if only R is too large, and rounding of the outputs explains the errors: their median is at most
/// the mean change of g* if x moves until the outputs change by one rounding of the largest of
/// them. For example, a softmax y near 1 determines 1 - y only to one rounding of y. If `plain` is
/// missing (without forward), its errors count as one rounding.
CheckReport check_low_precision(const CheckedFunction& given, const CheckedFunction& plain,
                                CheckedFunction reference, const Precision& type,
                                const CheckOptions& options);

}  // namespace heed::autograd
