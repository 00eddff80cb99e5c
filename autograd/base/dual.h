// Dual numbers: a value and one directional derivative. Kernels are templates on the scalar, so the
// same forward code runs on Dual and gives derivatives without a step size (Clifford 1873).
//
// A derivative is a sum over the paths from input to output of products of local derivatives. Where
// they cancel, rounding is what is left; `terms`, the sum of their absolute values, says how much
// of that there can be: some multiple of epsilon * terms.
#pragma once

#include <cmath>
#include <limits>
#include <numbers>

namespace heed::autograd {

struct Dual {
  double value = 0;
  double tangent = 0;
  double terms = 0;  ///< sum of the absolute values of the terms of tangent

  constexpr Dual() = default;
  constexpr Dual(double v) : value(v) {}  // NOLINT: a constant is a dual with tangent 0
  constexpr Dual(double v, double t) : Dual(v, t, t < 0 ? -t : t) {}
  constexpr Dual(double v, double t, double s) : value(v), tangent(t), terms(s) {}

  constexpr Dual operator-() const { return {-value, -tangent, terms}; }
  constexpr Dual& operator+=(Dual o) {
    value += o.value;
    tangent += o.tangent;
    terms += o.terms;
    return *this;
  }
  constexpr Dual& operator-=(Dual o) { return *this += -o; }
  constexpr Dual& operator*=(Dual o) {
    terms = terms * magnitude(o.value) + magnitude(value) * o.terms;
    tangent = tangent * o.value + value * o.tangent;
    value *= o.value;
    return *this;
  }
  constexpr Dual& operator/=(Dual o) {
    value /= o.value;
    tangent = (tangent - value * o.tangent) / o.value;
    terms = (terms + magnitude(value) * o.terms) / magnitude(o.value);
    return *this;
  }
  friend constexpr Dual operator+(Dual a, Dual b) { return a += b; }
  friend constexpr Dual operator-(Dual a, Dual b) { return a -= b; }
  friend constexpr Dual operator*(Dual a, Dual b) { return a *= b; }
  friend constexpr Dual operator/(Dual a, Dual b) { return a /= b; }
  // Branches look at values only.
  friend constexpr bool operator==(Dual a, Dual b) { return a.value == b.value; }
  friend constexpr bool operator!=(Dual a, Dual b) { return a.value != b.value; }
  friend constexpr bool operator<(Dual a, Dual b) { return a.value < b.value; }
  friend constexpr bool operator>(Dual a, Dual b) { return a.value > b.value; }
  friend constexpr bool operator<=(Dual a, Dual b) { return a.value <= b.value; }
  friend constexpr bool operator>=(Dual a, Dual b) { return a.value >= b.value; }

 private:
  static constexpr double magnitude(double x) { return x < 0 ? -x : x; }
};

/// f(x) with derivative df: the chain rule. A zero tangent stays zero where df is infinite.
inline Dual chain(Dual x, double f, double df) {
  return {f, x.tangent == 0 ? 0.0 : df * x.tangent, x.terms == 0 ? 0.0 : std::abs(df) * x.terms};
}
inline Dual exp(Dual x) {
  const double e = std::exp(x.value);
  return chain(x, e, e);
}
inline Dual log(Dual x) { return chain(x, std::log(x.value), 1 / x.value); }
inline Dual sqrt(Dual x) {
  const double s = std::sqrt(x.value);
  return chain(x, s, 0.5 / s);
}
inline Dual tanh(Dual x) {
  const double t = std::tanh(x.value);
  return chain(x, t, 1 - t * t);
}
inline Dual erf(Dual x) {
  return chain(x, std::erf(x.value), 2 * std::numbers::inv_sqrtpi * std::exp(-x.value * x.value));
}
inline Dual abs(Dual x) {
  return chain(x, std::abs(x.value), double(x.value > 0) - double(x.value < 0));
}
inline Dual pow(Dual x, Dual y) {
  const double p = std::pow(x.value, y.value);
  const Dual base = y.value == 0 ? Dual(p) : chain(x, p, y.value * std::pow(x.value, y.value - 1));
  const Dual exponent = chain(y, 0, y.terms == 0 ? 0.0 : p * std::log(x.value));
  return {p, base.tangent + exponent.tangent, base.terms + exponent.terms};
}
inline bool isfinite(Dual x) { return std::isfinite(x.value) && std::isfinite(x.tangent); }

/// The real part, of any scalar: what branches and comparisons look at.
template <class T>
constexpr T real(T x) {
  return x;
}
constexpr double real(Dual x) { return x.value; }

}  // namespace heed::autograd

template <>
struct std::numeric_limits<heed::autograd::Dual> : std::numeric_limits<double> {};
