// Comparisons and logic. Results are bool8 and have no gradient.
#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/operands.h"
#include "autograd/ops/ops.h"

namespace heed::autograd {

using detail::scalar_like;

namespace {

void check_bool(std::string_view op, const Tensor& x) {
  check<DTypeError>(x.dtype() == bool8, op, "needs bool8, got ", x.dtype());
}

template <class F>
Tensor zip_logical(std::string_view op, const Tensor& a, const Tensor& b, F f) {
  check_bool(op, a);
  check_bool(op, b);
  return elementwise<Domain<bool, bool>>(op, a, b, f);
}

}  // namespace

Tensor eq(const Tensor& a, const Tensor& b) {
  return elementwise<ComparisonDomain>("eq", a, b, [](auto x, auto y) { return x == y; });
}
Tensor ne(const Tensor& a, const Tensor& b) {
  return elementwise<ComparisonDomain>("ne", a, b, [](auto x, auto y) { return x != y; });
}
Tensor lt(const Tensor& a, const Tensor& b) {
  return elementwise<ComparisonDomain>("lt", a, b, [](auto x, auto y) { return x < y; });
}
Tensor le(const Tensor& a, const Tensor& b) {
  return elementwise<ComparisonDomain>("le", a, b, [](auto x, auto y) { return x <= y; });
}
Tensor gt(const Tensor& a, const Tensor& b) { return lt(b, a); }
Tensor ge(const Tensor& a, const Tensor& b) { return le(b, a); }
Tensor eq(const Tensor& a, double b) { return eq(a, scalar_like("eq", a, b)); }
Tensor ne(const Tensor& a, double b) { return ne(a, scalar_like("ne", a, b)); }
Tensor lt(const Tensor& a, double b) { return lt(a, scalar_like("lt", a, b)); }
Tensor le(const Tensor& a, double b) { return le(a, scalar_like("le", a, b)); }
Tensor gt(const Tensor& a, double b) { return gt(a, scalar_like("gt", a, b)); }
Tensor ge(const Tensor& a, double b) { return ge(a, scalar_like("ge", a, b)); }

Tensor isfinite(const Tensor& x) {
  return elementwise<Domain<bool, float, double, Tracked>>(
      "isfinite", x, [](auto v) { return std::isfinite(real(v)); });
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return zip_logical("logical_and", a, b, [](bool x, bool y) { return x && y; });
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return zip_logical("logical_or", a, b, [](bool x, bool y) { return x || y; });
}
Tensor logical_not(const Tensor& x) {
  check_bool("logical_not", x);
  return elementwise<Domain<bool, bool>>("logical_not", x, [](bool v) { return !v; });
}

bool allclose(const Tensor& a, const Tensor& b, double rtol, double atol) {
  check(a.shape() == b.shape(), "allclose", "needs equal shapes, got ", a.shape(), " and ",
        b.shape());
  const auto close = [=](auto x, auto y) {
    const double u = double(real(x)), v = double(real(y));
    // Equal infinities are close. If v is infinite and u is not equal to v, they are not close,
    // although the tolerance is infinite.
    return u == v || (std::isfinite(v) && std::abs(u - v) <= atol + rtol * std::abs(v));
  };
  return all(elementwise<ComparisonDomain>("allclose", a, b, close)).item<bool>();
}

const Tensor& expect_shape(const Tensor& x, const Shape& shape) {
  check(x.shape() == shape, "expect_shape", "needs ", shape, ", got ", x.shape());
  return x;
}

}  // namespace heed::autograd
