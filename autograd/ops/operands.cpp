#include "autograd/ops/operands.h"

#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/tensor/create.h"

namespace heed::autograd::detail {

DType unify(std::string_view op, std::span<Tensor* const> operands) {
  const Tensor* like = operands[0];  // has the common dtype
  for (const Tensor* x : operands.subspan(1)) {
    if (!x->defined() || x->dtype() == like->dtype()) continue;
    check<DTypeError>(can_mix(like->dtype(), x->dtype()), op, "dtypes differ: ", like->dtype(),
                      " and ", x->dtype(), "; convert one with to(x, dtype)");
    if (like->dtype() == float64) like = x;
  }
  for (Tensor* x : operands)
    if (x->defined() && x->dtype() != like->dtype()) *x = lift(*x);
  return like->dtype();
}

Tensor lift(const Tensor& x) {
  Tensor y = empty(x.shape(), tracked64);
  elementwise_into<Tracked, double>(
      y, [](double v) { return Tracked(v); }, x);
  return y;
}

Tensor scalar_like(std::string_view op, const Tensor& x, double value) {
  check<DTypeError>(x.dtype() != int64 || (value == std::trunc(value) && std::abs(value) < 0x1p63),
                    op, value, " is not an int64; convert the tensor with to(x, dtype)");
  return full({}, value, x.dtype());
}

}  // namespace heed::autograd::detail
