#include "autograd/ops/operands.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/tensor/create.h"

namespace heed::autograd::detail {

DType unify(std::string_view op, std::span<Tensor* const> operands) {
  DType dtype = operands[0]->dtype();
  for (const Tensor* x : operands.subspan(1)) {
    if (!x->defined() || x->dtype() == dtype) continue;
    const DType other = x->dtype();
    const bool lifts = (is_dual(dtype) && other == float64) || (dtype == float64 && is_dual(other));
    check<DTypeError>(lifts, op, "dtypes differ: ", dtype, " and ", other,
                      "; convert one with to(x, dtype)");
    if (is_dual(other)) dtype = other;
  }
  if (!is_dual(dtype)) return dtype;
  const Tensor like = **std::find_if(operands.begin(), operands.end(), [dtype](const Tensor* x) {
    return x->defined() && x->dtype() == dtype;
  });
  for (Tensor* x : operands)
    if (x->defined()) *x = lift(op, *x, like);
  return dtype;
}

Tensor lift(std::string_view op, const Tensor& x, const Tensor& like) {
  if (x.dtype() == like.dtype()) return x;
  check<DTypeError>(x.dtype() == float64, op,
                    "dual numbers can be combined only with float64, got ", x.dtype());
  Tensor y = empty(x.shape(), like.dtype());
  if (like.dtype() == dual64)
    elementwise_into<Dual, double>(
        y, [](double v) { return Dual(v); }, x);
  else
    elementwise_into<Tracked, double>(
        y, [](double v) { return Tracked(v); }, x);
  return y;
}

Tensor scalar_like(std::string_view op, const Tensor& x, double value) {
  const DType dtype = is_dual(x.dtype()) ? float64 : x.dtype();
  check<DTypeError>(dtype != int64 || (value == std::trunc(value) && std::abs(value) < 0x1p63), op,
                    value, " is not an int64; convert the tensor with to(x, dtype)");
  return full({}, value, dtype);
}

}  // namespace heed::autograd::detail
