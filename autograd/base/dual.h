// Dual numbers: a value and one directional derivative. Kernels are templates on the scalar, so the
// same forward code runs on Dual and gives derivatives without a step size (Clifford 1873).
//
// A derivative is a sum over the paths from input to output of products of local derivatives. Where
// they cancel, rounding is what is left; `terms`, the sum of their absolute values, says how much
// of that there can be: some multiple of epsilon * terms.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

namespace heed::autograd {

/// While not 0, tangents carry rounding errors, too: every operation whose value is no float adds
/// value * (+1 or -1) to its tangent, the sign a hash of the value and this seed. A tangent of 0 at
/// the inputs then becomes, times 2^-24, what rounding each operation to float32 does to a result,
/// to first order. A function adds as many of them as float32 kernels may be wrong by. Not while
/// another thread computes with dual numbers.
inline std::uint64_t rounding_seed = 0;

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
    return round();
  }
  constexpr Dual& operator-=(Dual o) { return *this += -o; }
  constexpr Dual& operator*=(Dual o) {
    terms = terms * magnitude(o.value) + magnitude(value) * o.terms;
    tangent = tangent * o.value + value * o.tangent;
    value *= o.value;
    return round();
  }
  constexpr Dual& operator/=(Dual o) {
    value /= o.value;
    tangent = (tangent - value * o.tangent) / o.value;
    terms = (terms + magnitude(value) * o.terms) / magnitude(o.value);
    return round();
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

  /// One operation's rounding error, or that of a function which is wrong by `units` of 2^-24.
  constexpr Dual& round(double units = 1) {
    if (!std::is_constant_evaluated() && rounding_seed != 0 && double(float(value)) != value)
      add_rounding(units);
    return *this;
  }
  /// The rounding of an operand to bfloat16, half a unit in its 8th digit: 2^16 of 2^-24.
  Dual& round_operand() {
    if (rounding_seed != 0) add_rounding(0x1p16);
    return *this;
  }

 private:
  void add_rounding(double units) {
    if (!std::isfinite(value)) return;
    std::uint64_t hash =
        (std::bit_cast<std::uint64_t>(value) ^ rounding_seed) * 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93u;
    tangent += hash >> 63 ? units * value : -units * value;
  }
  static constexpr double magnitude(double x) { return x < 0 ? -x : x; }
};

/// f(x) with derivative df: the chain rule. A zero tangent stays zero where df is infinite.
/// `units`: the error of float32 kernels of f, in 2^-24 of its value; an ulp is up to two of them.
inline Dual chain(Dual x, double f, double df, double units) {
  return Dual(f, x.tangent == 0 ? 0.0 : df * x.tangent, x.terms == 0 ? 0.0 : std::abs(df) * x.terms)
      .round(units);
}
inline Dual exp(Dual x) {
  const double e = std::exp(x.value);
  return chain(x, e, e, 4);
}
inline Dual log(Dual x) { return chain(x, std::log(x.value), 1 / x.value, 2); }
inline Dual sqrt(Dual x) {
  const double s = std::sqrt(x.value);
  return chain(x, s, 0.5 / s, 1);
}
inline Dual tanh(Dual x) {
  const double t = std::tanh(x.value);
  return chain(x, t, 1 - t * t, 10);
}
inline Dual erf(Dual x) {
  return chain(x, std::erf(x.value), 2 * std::numbers::inv_sqrtpi * std::exp(-x.value * x.value),
               4);
}
inline Dual abs(Dual x) {
  return chain(x, std::abs(x.value), double(x.value > 0) - double(x.value < 0), 0);
}
inline Dual pow(Dual x, Dual y) {
  const double p = std::pow(x.value, y.value);
  const Dual base =
      y.value == 0 ? Dual(p) : chain(x, p, y.value * std::pow(x.value, y.value - 1), 0);
  const Dual exponent = chain(y, 0, y.terms == 0 ? 0.0 : p * std::log(x.value), 0);
  return Dual(p, base.tangent + exponent.tangent, base.terms + exponent.terms).round(2);
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
