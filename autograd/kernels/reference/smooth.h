// The smooth functions of one operand: tanh, sigmoid, gelu, gelu_tanh and silu in float64,
// with their derivatives (slopes). Terms that cancel are computed in long double, which has at
// least 11 more bits on Linux. ../README.md states the errors.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

namespace heed::autograd::kernels::reference {

/// Returns e^x for x in [-1e9, 0] with the error of a float64. For x above -1000, the result keeps
/// all digits even if it is below the smallest normal float64. For x below -1046, it is 0.
inline long double exp_extended(long double x) {
  const double high = double(x);
  const bool far = high < -600;
  const long double e = std::exp(far ? high + 300 : high);
  return (e + e * (x - high)) * (far ? 5.148200222412013781e-131L : 1);  // e^-300
}

/// 1 / (1 + e^-x).
struct Sigmoid {
  static double value(double x) {
    const long double e = std::exp(-std::abs(x));
    return double((x < 0 ? e : 1) / (1 + e));
  }
  static double slope(double x) {
    const long double e = std::exp(-std::abs(x));
    return double(e / ((1 + e) * (1 + e)));
  }
};
struct Tanh {
  static double value(double x) { return std::tanh(x); }
  static double slope(double x) { return 4 * Sigmoid::slope(2 * x); }
};

/// x Phi(x), where Phi is the standard normal distribution function and phi is its density. For
/// t >= 0, Phi(-t) = e^(-t^2 / 2) R(t). The slope at -t, which is 0 at t0 = 0.7518, is
/// Phi(-t) - t phi(-t) = e^(-t^2 / 2) (t0 - t) W(t). R (1 + t / 5) and W are polynomials in
/// v = (5 - t) / (5 + t) that were fitted for heed; they minimize the largest relative error.
struct Gelu {
  static double value(double x) {
    static constexpr std::array kR = {
        -6.46907054e-11,      -2.758854857e-10,       1.5929076736e-9,        1.6287620541e-9,
        -1.31949042619e-8,    -8.1392281576e-9,       8.65589396597e-8,       6.70824770881e-8,
        -5.537750685031e-7,   -7.960666700582e-7,     3.3362009924697e-6,     9.9525283313378e-6,
        -1.1875132933768e-5,  -0.0001089798062496394, -0.0001595738819390202, 0.0005986753532990224,
        0.004159013360199358, 0.01382372774131635,    0.03300407323406598,    0.06270663133425917,
        0.09906112319399549,  0.13307650057801135,    0.15383860995001258};
    const double t = limited(x);
    return std::max(x, 0.0) - double(t * (polynomial(kR, t) / (1 + t / 5)) * bell(t));
  }
  static double slope(double x) {
    static constexpr std::array kW = {
        2.190469676e-10,      -1.596939305e-10,      -2.7215200023e-9,     2.15466602e-9,
        2.1656549094e-8,      -1.2119196576e-8,      -1.686816045163e-7,   -2.16368035063e-8,
        1.3601301498329e-6,   1.992829728336e-6,     -9.2011609007846e-6,  -4.06469956209277e-5,
        -1.51957742761334e-5, 0.0004405306252936426, 0.002302183723502043, 0.007334310928990032,
        0.01780783155688918,  0.03553512146915554,   0.06048781355387082,  0.08979658026980374,
        0.45143549526340543};
    const double t = limited(x);
    const auto tail = double((0.75179152469356445746L - t) * polynomial(kW, t) * bell(t));
    return x > 0 ? 1 - tail : tail;
  }

 private:
  static double limited(double x) { return std::min(std::abs(x), 40.0); }  // keeps NaN
  static long double bell(long double t) { return exp_extended(-t * t / 2); }
  // Rounding matters only in the last two steps: the terms before them are small.
  template <std::size_t n>
  static long double polynomial(const std::array<double, n>& c, double t) {
    const double v = 1 - 2 * t / (5 + t);
    double sum = 0;
    for (std::size_t k = 0; k + 2 < n; ++k) sum = sum * v + c[k];
    return ((long double)(sum)*v + c[n - 2]) * v + c[n - 1];
  }
};

/// x s(u), where s is the logistic function and u(x) = kLinear x + kCubic x^3. With e = e^-u(t),
/// the slope at -t is e (1 + e - t u'(t)) / (1 + e)^2. Near the zero of the slope, the terms of the
/// middle factor cancel.
template <class U>
struct LogisticGate {
  static double value(double x) {
    const double t = std::min(std::abs(x), 800.0);  // keeps NaN
    const long double e = exp_extended(-u(t));
    return double((x < 0 ? -t * e : x) / (1 + e));
  }
  static double slope(double x) {
    const long double t = std::min(std::abs(x), 800.0), e = std::exp(-u(t));
    const long double middle = 1 + e - t * (U::kLinear + 3 * U::kCubic * t * t);
    const auto tail = double(e * middle / ((1 + e) * (1 + e)));
    return x > 0 ? 1 - tail : tail;
  }

 private:
  static long double u(long double t) { return t * (U::kLinear + U::kCubic * t * t); }
};
/// The coefficients of SiLU.
struct SiluU {
  static constexpr long double kLinear = 1, kCubic = 0;
};
/// The coefficients of GELU with the tanh approximation: u = 2 sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluTanhU {
  static constexpr long double kLinear = 1.595769121605730711760L, kCubic = 0.044715L * kLinear;
};
using GeluTanh = LogisticGate<GeluTanhU>;
using Silu = LogisticGate<SiluU>;

}  // namespace heed::autograd::kernels::reference
