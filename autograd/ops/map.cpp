#include "autograd/ops/map.h"

#include <cmath>

namespace heed::autograd {

Tensor lift(std::string_view op, const Tensor& x) {
  if (x.dtype() == dual64) return x;
  check<DTypeError>(x.dtype() == float64, op, "dual numbers mix with float64 only, got ",
                    x.dtype());
  Tensor y = empty(x.shape(), dual64);
  map_into<Dual, double>(y, x, [](double v) { return Dual(v); });
  return y;
}

Tensor copy_of(const Tensor& x) {
  Tensor y = empty_like(x);
  dispatch_any(x.dtype(), [&]<class T> { copy_into(y.mutable_data<T>(), y.strides(), x); });
  return y;
}

Tensor scalar_like(std::string_view op, const Tensor& x, double value) {
  const DType dtype = x.dtype() == dual64 ? float64 : x.dtype();
  check<DTypeError>(dtype != int64 || (value == std::trunc(value) && std::abs(value) < 0x1p63), op,
                    value, " is no int64; convert the tensor with to(x, dtype)");
  return full({}, value, dtype);
}

}  // namespace heed::autograd
