#include "autograd/base/tracked.h"

namespace heed::autograd {
namespace {

// Returns the `terms` of f(x), where df is the derivative of f at x. If x.terms is 0, returns 0
// even if df is infinite.
double chained_terms(const Tracked& x, double df) {
  return x.terms == 0 ? 0.0 : std::abs(df) * x.terms;
}

Tracked apply(const Tracked& x, Dual (*f)(Dual)) {
  const Dual y = f({x.number.value, 1});
  return chain(x, y.value, y.tangent);
}

}  // namespace

Tracked Tracked::operator-() const {
  Tracked y = *this;
  y.number = -number;
  return y;
}
Tracked& Tracked::operator+=(const Tracked& o) {
  number += o.number;
  terms += o.terms;
  return *this;
}
Tracked& Tracked::operator*=(const Tracked& o) {
  const double x = std::abs(number.value), y = std::abs(o.number.value);
  terms = terms * y + x * o.terms;
  number *= o.number;
  return *this;
}
Tracked& Tracked::operator/=(const Tracked& o) {
  const double y = std::abs(o.number.value), o_terms = o.terms;
  number /= o.number;
  terms = (terms + std::abs(number.value) * o_terms) / y;
  return *this;
}

Tracked chain(const Tracked& x, double f, double df) {
  Tracked y = x;
  y.number = chain(x.number, f, df);
  y.terms = chained_terms(x, df);
  return y;
}
Tracked exp(const Tracked& x) { return apply(x, exp); }
Tracked log(const Tracked& x) { return apply(x, log); }
Tracked log1p(const Tracked& x) { return apply(x, log1p); }
Tracked sqrt(const Tracked& x) { return apply(x, sqrt); }
Tracked abs(const Tracked& x) { return apply(x, abs); }
Tracked pow(const Tracked& x, const Tracked& y) {
  const Dual a = x.number.value, b = y.number.value;
  // The two derivatives are computed separately, because the derivative with respect to the
  // exponent is not finite if the base is negative.
  const double by_x = x.terms == 0 ? 0 : pow({a.value, 1}, b).tangent;
  const double by_y = y.terms == 0 ? 0 : pow(a, {b.value, 1}).tangent;
  const double p = std::pow(a.value, b.value);
  Tracked z = x;
  z.number = {p, chain(x.number, p, by_x).tangent + chain(y.number, p, by_y).tangent};
  z.terms = chained_terms(x, by_x) + chained_terms(y, by_y);
  return z;
}

}  // namespace heed::autograd
