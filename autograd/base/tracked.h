// The scalar type of the gradient checks (autograd/check/): a dual number with an estimate of the
// error of its tangent. Only code in autograd/check/ creates such values. The type is declared here
// because kernels and ops are instantiated for every scalar that dispatch_floating() accepts
// (dtype.h).
#pragma once

#include <cstdint>
#include <limits>

#include "autograd/base/dual.h"

namespace heed::autograd {

/// A dual number with two measures of how accurate its tangent can be.
///
/// `terms` is the sum of the absolute values of the terms of the tangent. If `seed` is not 0, the
/// tangent contains simulated rounding errors. The operators are not inline: every kernel is
/// compiled for this type, and its speed is not important.
struct Tracked {
  Dual number;  ///< value and tangent
  /// A derivative is a sum over all paths from input to output, and each path contributes a product
  /// of local derivatives. `terms` is the sum of the absolute values of these products. Rounding
  /// changes a derivative by a multiple of epsilon * terms, even if the products cancel.
  double terms = 0;
  /// If `seed` is not 0, the tangent accumulates rounding noise. Each operation whose value is not
  /// exactly a float32 adds value * (+1 or -1) to the tangent; the sign is a hash of the value and
  /// the seed. If the tangents of the inputs are 0, then the tangent of a result times 2^-24 is, to
  /// first order, the effect of rounding every operation to float32. Functions such as exp() add a
  /// multiple of the value, because their float32 kernels have a larger error. A result inherits
  /// the seed of its operands.
  std::uint64_t seed = 0;

  ///@{
  /// Creates a number without noise. By default the tangent is 0, so the number is a constant.
  Tracked() = default;
  Tracked(double v) : number(v) {}  // NOLINT: the conversion from double is implicit
  Tracked(double v, double t) : number(v, t), terms(t < 0 ? -t : t) {}
  ///@}
  /// Returns a number with value v, tangent 0 and the given seed. If the seed is not 0, operations
  /// on the number add noise.
  static Tracked with_noise(double v, std::uint64_t seed);

  ///@{
  /// Computes value, tangent and terms, and adds the rounding noise of one operation. Negation is
  /// exact and adds no noise.
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

  /// Adds the rounding noise of one float32 operation, or of a function whose relative error is
  /// `units` times 2^-24. Adds nothing if the value is exactly a float32. Returns *this.
  Tracked& round(double units = 1);
};

/// Applies the chain rule as chain() of Dual does, also to `terms`. Then adds the noise of a
/// float32 kernel whose relative error is `units` times 2^-24. The default is the limit of the
/// smooth ops, 4 units in the last place (autograd/kernels/README.md).
Tracked chain(const Tracked& x, double f, double df, double units = 8);
///@{
/// Returns the value of the function at x with its tangent and `terms`, and adds the noise of a
/// float32 kernel.
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
