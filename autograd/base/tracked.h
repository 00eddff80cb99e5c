// The scalar of the gradient checks (check/): a dual number that also carries how exact its tangent
// can be. Only check/ creates values of it. It is declared here because kernels and ops are
// instantiated on every scalar that dispatch_floating knows (dtype.h).
#pragma once

#include <cstdint>
#include <limits>

#include "autograd/base/dual.h"

namespace heed::autograd {

/// A dual number, the size of the terms of its tangent and, where `seed` is not 0, rounding noise.
/// Operators are not inline: kernels on Tracked are compiled once more, but never need to be fast.
struct Tracked {
  Dual number;
  /// A derivative is a sum over the paths from input to output of products of local derivatives.
  /// This is the sum of their absolute values. Rounding changes a derivative by some multiple of
  /// epsilon * terms, also where the terms cancel.
  double terms = 0;
  /// If not 0, every operation on this number whose value is not exactly a float adds value * (+1
  /// or -1) to the tangent. The sign is a hash of the value and the seed. A tangent of 0 at the
  /// inputs then becomes, times 2^-24, what rounding each operation to float32 does to a result, to
  /// first order. A function adds as many units as float32 kernels may be wrong by. Results take
  /// over the seed of their operands.
  std::uint64_t seed = 0;

  Tracked() = default;
  Tracked(double v) : number(v) {}  // NOLINT: a constant has no terms and no noise
  Tracked(double v, double t) : number(v, t), terms(t < 0 ? -t : t) {}
  /// A number with tangent 0 from which on operations add noise.
  static Tracked with_noise(double v, std::uint64_t seed);

  Tracked operator-() const;
  Tracked& operator+=(const Tracked& o);
  Tracked& operator-=(const Tracked& o) { return *this += -o; }
  Tracked& operator*=(const Tracked& o);
  Tracked& operator/=(const Tracked& o);
  friend Tracked operator+(Tracked a, const Tracked& b) { return a += b; }
  friend Tracked operator-(Tracked a, const Tracked& b) { return a -= b; }
  friend Tracked operator*(Tracked a, const Tracked& b) { return a *= b; }
  friend Tracked operator/(Tracked a, const Tracked& b) { return a /= b; }
  friend bool operator==(const Tracked& a, const Tracked& b) { return a.number == b.number; }
  friend auto operator<=>(const Tracked& a, const Tracked& b) { return a.number <=> b.number; }

  /// Adds the rounding error of one operation, or of a function that is wrong by `units` of 2^-24.
  Tracked& round(double units = 1);
  /// Adds the rounding of an operand to bfloat16, half a unit in its 8th digit: 2^16 of 2^-24.
  Tracked& round_operand();
};

Tracked exp(const Tracked& x);
Tracked log(const Tracked& x);
Tracked sqrt(const Tracked& x);
Tracked tanh(const Tracked& x);
Tracked erf(const Tracked& x);
Tracked abs(const Tracked& x);
Tracked pow(const Tracked& x, const Tracked& y);
inline bool isfinite(const Tracked& x) { return isfinite(x.number); }
inline double real(const Tracked& x) { return x.number.value; }

}  // namespace heed::autograd

template <>
struct std::numeric_limits<heed::autograd::Tracked> : std::numeric_limits<double> {};
