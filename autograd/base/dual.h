// Dual numbers for forward-mode derivatives (Clifford 1873): exact derivatives, not finite
// differences. tracked.h adds an estimate of their error.
#pragma once

#include <cmath>
#include <compare>

namespace heed::autograd {

/// A number and its derivative in one direction. Arithmetic follows the rules of differentiation.
/// Comparisons compare the values only.
struct Dual {
  double value = 0;    ///< the number
  double tangent = 0;  ///< the derivative of the number in one direction

  ///@{
  /// Creates a dual number. By default the tangent is 0, so the number is a constant.
  constexpr Dual() = default;
  constexpr Dual(double v) : value(v) {}  // NOLINT: the conversion from double is implicit
  constexpr Dual(double v, double t) : value(v), tangent(t) {}
  ///@}

  ///@{
  /// Computes the value and the tangent by the rules of differentiation.
  constexpr Dual operator-() const { return {-value, -tangent}; }
  constexpr Dual& operator+=(Dual o) {
    value += o.value;
    tangent += o.tangent;
    return *this;
  }
  constexpr Dual& operator*=(Dual o) {
    tangent = tangent * o.value + value * o.tangent;
    value *= o.value;
    return *this;
  }
  constexpr Dual& operator/=(Dual o) {
    value /= o.value;
    tangent = (tangent - value * o.tangent) / o.value;
    return *this;
  }
  ///@}

  ///@{
  /// Compares the values and ignores the tangents.
  friend constexpr bool operator==(Dual a, Dual b) { return a.value == b.value; }
  friend constexpr auto operator<=>(Dual a, Dual b) { return a.value <=> b.value; }
  ///@}
};

/// Applies the chain rule. `f` is the value of a function at x, and `df` is its derivative at x.
/// Returns the value f with the tangent df * x.tangent. If x.tangent is 0, the new tangent is 0
/// even if `df` is infinite.
inline Dual chain(Dual x, double f, double df) {
  return {f, x.tangent == 0 ? 0.0 : df * x.tangent};
}

///@{
/// Returns the value and the tangent of the function at x. The derivative of abs at 0 is 0.
inline Dual exp(Dual x) {
  const double e = std::exp(x.value);
  return chain(x, e, e);
}
inline Dual log(Dual x) { return chain(x, std::log(x.value), 1 / x.value); }
inline Dual log1p(Dual x) { return chain(x, std::log1p(x.value), 1 / (1 + x.value)); }
inline Dual sqrt(Dual x) {
  const double s = std::sqrt(x.value);
  return chain(x, s, 0.5 / s);
}
inline Dual abs(Dual x) {
  return chain(x, std::abs(x.value), double(x.value > 0) - double(x.value < 0));
}
inline Dual pow(Dual x, Dual y) {
  const double p = std::pow(x.value, y.value);
  const Dual base = y.value == 0 ? Dual(p) : chain(x, p, y.value * std::pow(x.value, y.value - 1));
  const Dual exponent = chain(y, 0, y.tangent == 0 ? 0.0 : p * std::log(x.value));
  return {p, base.tangent + exponent.tangent};
}
///@}
/// Returns true if the value and the tangent are both finite.
inline bool isfinite(Dual x) { return std::isfinite(x.value) && std::isfinite(x.tangent); }

/// Returns the number without its tangent. Kernels use real() for branches and comparisons.
template <class T>
constexpr T real(T x) {
  return x;
}

}  // namespace heed::autograd
