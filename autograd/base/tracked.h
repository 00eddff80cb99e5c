// The scalar type of the gradient checks (autograd/check/): a dual number with an estimate of the
// error of its tangent. Kernels are templates on the scalar type, so the forward code also runs on
// it and then computes exact derivatives. Only code in autograd/check/ creates such values. The
// type is declared here because kernels and ops are instantiated for every scalar that
// dispatch_floating() accepts (dtype.h).
#pragma once

#include <limits>

#include "autograd/base/dual.h"

namespace heed::autograd {

/// A dual number with a measure of how accurate its tangent can be. The arithmetic is in
/// tracked.cpp and not inline, because every kernel is compiled for this type.
/// Speed is not important here.
struct Tracked {
  Dual number;  ///< value and tangent
  /// A derivative is a sum over all paths from input to output, and each path contributes a product
  /// of local derivatives. `terms` is the sum of the absolute values of these products. Rounding
  /// changes a derivative by a multiple of epsilon * terms, even if the products cancel.
  double terms = 0;

  ///@{
  /// Creates a number. By default the tangent is 0, so the number is a constant.
  Tracked() = default;
  Tracked(double v) : number(v) {}  // NOLINT: the conversion from double is implicit
  Tracked(double v, double t) : number(v, t), terms(t < 0 ? -t : t) {}
  ///@}

  ///@{
  /// Computes value, tangent and terms.
  Tracked operator-() const;
  Tracked& operator+=(const Tracked& o);
  Tracked& operator-=(const Tracked& o) { return *this += -o; }
  Tracked& operator*=(const Tracked& o);
  Tracked& operator/=(const Tracked& o);
  friend Tracked operator+(Tracked a, const Tracked& b) { return a += b; }
  friend Tracked operator-(Tracked a, const Tracked& b) { return a -= b; }
  friend Tracked operator*(Tracked a, const Tracked& b) { return a *= b; }
  friend Tracked operator/(Tracked a, const Tracked& b) { return a /= b; }
  ///@}
  ///@{
  /// Compares the values and ignores the tangents.
  friend bool operator==(const Tracked& a, const Tracked& b) { return a.number == b.number; }
  friend auto operator<=>(const Tracked& a, const Tracked& b) { return a.number <=> b.number; }
  ///@}
};

/// Applies the chain rule as chain() of Dual does, also to `terms`.
Tracked chain(const Tracked& x, double f, double df);
///@{
/// Returns the value of the function at x with its tangent and `terms`.
Tracked exp(const Tracked& x);
Tracked log(const Tracked& x);
Tracked log1p(const Tracked& x);
Tracked sqrt(const Tracked& x);
Tracked abs(const Tracked& x);
Tracked pow(const Tracked& x, const Tracked& y);
///@}
/// Returns true if the value and the tangent are both finite.
inline bool isfinite(const Tracked& x) { return isfinite(x.number); }
/// Returns the value without its tangent. Kernels use real() for branches and comparisons.
inline double real(const Tracked& x) { return x.number.value; }

}  // namespace heed::autograd

// Doxygen must skip this, because it reports an error for a specialization of a class of namespace
// std.
/// @cond
template <>
struct std::numeric_limits<heed::autograd::Tracked> : std::numeric_limits<double> {};
/// @endcond
