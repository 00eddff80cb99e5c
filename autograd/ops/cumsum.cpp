// cumsum: running sums along one axis.
#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/reference/reduce.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

Samples cumsum_samples(SampleGen& g);
const Op kCumsum({.name = "cumsum",
                  .saves = Saves::kNothing,
                  .samples = cumsum_samples,
                  .no_sizes = needs_axis()});

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t axis) {
  const int a = normalized_axis(kCumsum, x.shape(), axis);
  Tensor y = empty_like(x);
  dispatch_numeric(x.dtype(), kCumsum, [&]<class T> {
    for_each_line(
        y.mutable_data<T>(), y.layout(), x.data<T>(), x.layout(), a, 1,
        [](T* to, std::int64_t to_stride, const T* from, std::int64_t from_stride, std::int64_t n) {
          kernels::Accumulator<T> total{};
          for (std::int64_t i = 0; i < n; ++i)
            to[i * to_stride] = T(total += kernels::Accumulator<T>(from[i * from_stride]));
        });
  });
  return record(kCumsum, {x}, y, [a](const Vjp& v) -> Grads {
    return {flip(cumsum(flip(v.grad, a), a), a)};  // element i is in the sums i, i + 1, ...
  });
}

namespace {

Samples cumsum_samples(SampleGen& g) {
  return {{"last axis", [](Args t) { return cumsum(t[0], -1); }, {g.normal({2, 4})}},
          {"first axis", [](Args t) { return cumsum(t[0] * t[0], 0); }, {g.normal({3, 2})}},
          {"size 0", [](Args t) { return cumsum(t[0], 1); }, {g.normal({2, 0})}}};
}

}  // namespace

}  // namespace heed::autograd
