// Running sums.
#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/reference/reduce.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

Samples cumsum_samples(SampleGen& g) {
  return {{"last axis", [](Args t) { return cumsum(t[0], -1); }, {g.normal({2, 4})}},
          {"first axis", [](Args t) { return cumsum(t[0] * t[0], 0); }, {g.normal({3, 2})}},
          {"size 0", [](Args t) { return cumsum(t[0], 1); }, {g.normal({2, 0})}}};
}
const Op kCumsum({.name = "cumsum",
                  .saves = Saves::kNothing,
                  .samples = cumsum_samples,
                  .no_sizes = needs_axis()});

}  // namespace

Tensor cumsum(const Tensor& x, std::int64_t axis) {
  const int a = normalized_axis(kCumsum, x.shape(), axis);
  Tensor y = empty_like(x);
  const std::int64_t length = x.shape()[a], to = y.strides()[a], from = x.strides()[a];
  Shape lines = x.shape();
  Strides to_lines = y.strides(), from_lines = x.strides();
  for (Dims* d : {&lines, &to_lines, &from_lines}) d->erase(a);
  dispatch_numeric(x.dtype(), kCumsum, [&]<class T> {
    T* out = y.mutable_data<T>();
    const T* in = x.data<T>();
    for_each_run(StridedLoop<2>(lines, {&to_lines, &from_lines}),
                 [&](const auto& at, std::int64_t n, const auto& s) {
                   for (std::int64_t line = 0; line < n; ++line) {
                     T* o = out + at[0] + line * s[0];
                     const T* f = in + at[1] + line * s[1];
                     kernels::Accumulator<T> total{};
                     for (std::int64_t i = 0; i < length; ++i)
                       o[i * to] = T(total += kernels::Accumulator<T>(f[i * from]));
                   }
                 });
  });
  return record(kCumsum, {x}, y, [a](const Vjp& v) -> Grads {
    return {flip(cumsum(flip(v.grad, a), a), a)};  // each input reaches every later sum
  });
}

}  // namespace heed::autograd
