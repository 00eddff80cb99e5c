#include "autograd/base/tracked.h"

#include <bit>

namespace heed::autograd {
namespace {

// Adds units * value with a pseudo-random sign to the tangent of x. Does nothing if the seed of x
// is 0.
void add_noise(Tracked& x, double units) {
  const double value = x.number.value;
  if (x.seed == 0 || !std::isfinite(value)) return;
  std::uint64_t hash = (std::bit_cast<std::uint64_t>(value) ^ x.seed) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93u;
  x.number.tangent += hash >> 63 ? units * value : -units * value;
}

// Returns the `terms` of f(x), where df is the derivative of f at x. If x.terms is 0, returns 0
// even if df is infinite.
double chained_terms(const Tracked& x, double df) {
  return x.terms == 0 ? 0.0 : std::abs(df) * x.terms;
}

// Returns f(x). `units` is the relative error of the float32 kernel of f, in units of 2^-24. One
// ulp is at most two such units.
Tracked apply(const Tracked& x, Dual (*f)(Dual), double units) {
  const Dual y = f({x.number.value, 1});
  return chain(x, y.value, y.tangent, units);
}

}  // namespace

Tracked Tracked::with_noise(double v, std::uint64_t seed) {
  Tracked x(v);
  x.seed = seed;
  return x;
}

Tracked Tracked::operator-() const {
  Tracked y = *this;
  y.number = -number;
  return y;
}
Tracked& Tracked::operator+=(const Tracked& o) {
  number += o.number;
  terms += o.terms;
  seed |= o.seed;
  return round();
}
Tracked& Tracked::operator*=(const Tracked& o) {
  const double x = std::abs(number.value), y = std::abs(o.number.value);
  terms = terms * y + x * o.terms;
  number *= o.number;
  seed |= o.seed;
  return round();
}
Tracked& Tracked::operator/=(const Tracked& o) {
  const double y = std::abs(o.number.value), o_terms = o.terms;
  number /= o.number;
  terms = (terms + std::abs(number.value) * o_terms) / y;
  seed |= o.seed;
  return round();
}

Tracked& Tracked::round(double units) {
  if (double(float(number.value)) != number.value) add_noise(*this, units);
  return *this;
}

Tracked chain(const Tracked& x, double f, double df, double units) {
  Tracked y = x;
  y.number = chain(x.number, f, df);
  y.terms = chained_terms(x, df);
  return y.round(units);
}
Tracked exp(const Tracked& x) { return apply(x, exp, 4); }
Tracked log(const Tracked& x) { return apply(x, log, 2); }
Tracked log1p(const Tracked& x) { return apply(x, log1p, 2); }
Tracked sqrt(const Tracked& x) { return apply(x, sqrt, 1); }
Tracked abs(const Tracked& x) { return apply(x, abs, 0); }
Tracked pow(const Tracked& x, const Tracked& y) {
  const Dual a = x.number.value, b = y.number.value;
  // The two derivatives are computed separately, because the derivative with respect to the
  // exponent is not finite if the base is negative.
  const double by_x = x.terms == 0 && x.number.tangent == 0 ? 0 : pow({a.value, 1}, b).tangent;
  const double by_y = y.terms == 0 ? 0 : pow(a, {b.value, 1}).tangent;
  const double p = std::pow(a.value, b.value);
  Tracked z = x;
  z.number = {p, chain(x.number, p, by_x).tangent + chain(y.number, p, by_y).tangent};
  z.terms = chained_terms(x, by_x) + chained_terms(y, by_y);
  z.seed |= y.seed;
  return z.round(2);
}

}  // namespace heed::autograd
