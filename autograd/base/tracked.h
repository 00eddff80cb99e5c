// The scalar type of the gradient checks (autograd/check/): a dual number with an estimate of the
// error of its tangent. Only check/ creates such values. The type is declared here because kernels
// and ops are instantiated for every scalar that dispatch_floating() accepts (dtype.h).
#pragma once

#include <cstdint>
#include <limits>

#include "autograd/base/dual.h"

namespace heed::autograd {

/// A dual number that also measures how accurate its tangent can be.
///
/// It sums the absolute values of the terms of the tangent and, if `seed` is not 0, simulates
/// rounding errors. The operators are not inline, because they need not be fast and every kernel is
/// compiled for this type, too.
struct Tracked {
  Dual number;  ///< value and tangent
  /// A derivative is a sum over all paths from input to output, and each path contributes a product
  /// of local derivatives. `terms` is the sum of the absolute values of these products. Rounding
  /// changes a derivative by a multiple of epsilon * terms, even if the products cancel.
  double terms = 0;
  /// If `seed` is not 0, the tangent accumulates rounding noise. Each operation whose value is not
  /// exactly a float32 adds value * (+1 or -1) to the tangent; the sign is a hash of the value and
  /// the seed. If the tangents of the inputs are 0, then the tangent of a result times 2^-24 is, to
  /// first order, the effect of rounding every operation to float32. Functions such as exp() add as
  /// many units as the float32 kernels may be wrong. Results inherit the seed of their operands.
  std::uint64_t seed = 0;

  ///@{
  /// Creates a number without noise. The tangent is 0 by default, which is a constant.
  Tracked() = default;
  Tracked(double v) : number(v) {}  // NOLINT: the conversion from double is implicit
  Tracked(double v, double t) : number(v, t), terms(t < 0 ? -t : t) {}
  ///@}
  /// Returns a number with tangent 0 and a seed, so that operations on it add noise.
  static Tracked with_noise(double v, std::uint64_t seed);

  ///@{
  /// Computes value, tangent and terms, and adds the rounding noise of one operation. A negation is
  /// exact and adds none.
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
  /// Adds the noise of rounding an operand to bfloat16: 2^16 units of 2^-24, which is half a unit
  /// in the last of its 8 binary digits. Returns *this.
  Tracked& round_operand();
};

///@{
/// Returns the function of x, with tangent, terms and the noise of a float32 kernel.
Tracked exp(const Tracked& x);
Tracked log(const Tracked& x);
Tracked sqrt(const Tracked& x);
Tracked tanh(const Tracked& x);
Tracked erf(const Tracked& x);
Tracked abs(const Tracked& x);
Tracked pow(const Tracked& x, const Tracked& y);
///@}
/// Returns true if the value and the tangent are both finite.
inline bool isfinite(const Tracked& x) { return isfinite(x.number); }
/// Returns the value without its tangent. Kernels use it for branches and comparisons.
inline double real(const Tracked& x) { return x.number.value; }

}  // namespace heed::autograd

// Doxygen skips this, because it reports an error for specializations of a class of namespace std.
/// @cond
template <>
struct std::numeric_limits<heed::autograd::Tracked> : std::numeric_limits<double> {};
/// @endcond
