#include "autograd/ops/map.h"

namespace heed::autograd {

Tensor lift(std::string_view op, const Tensor& x) {
  if (x.dtype() == dual64) return x;
  check<DTypeError>(x.dtype() == float64, op, "dual numbers mix with float64 only, got ", x.dtype());
  Tensor y = empty(x.shape(), dual64);
  map_into<Dual, double>(y, x, [](double v) { return Dual(v); });
  return y;
}

}  // namespace heed::autograd
