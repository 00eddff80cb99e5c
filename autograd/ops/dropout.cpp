// dropout: sets random elements to 0. The mask is a function of the key and the index of the
// element.
#include <array>

#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

Samples dropout_samples(SampleGen& g);
const Op kDropout({.name = "dropout", .saves = Saves::kNothing, .samples = dropout_samples});

constexpr Index kPhiloxCost = 8;  // cost of the random word of one element, in additions

// Sets y[i] = keep(first + i) ? x[i * stride] * scale : 0 for n adjacent elements of the output.
// The function does not multiply dropped elements by 0, so a dropped NaN becomes 0.
template <class T>
void drop_run(T* y, const T* x, Index stride, Index n, Index first,
              const kernels::DropoutMask& mask, T scale) {
  std::array<std::uint8_t, 256> keep;
  for (Index begin = 0; begin < n; begin += Index(keep.size())) {
    const Index count = std::min(n - begin, Index(keep.size()));
    const std::span run = std::span(keep).first(std::size_t(count));
    kernels::keep(mask, std::uint64_t(first + begin), run);
    for (Index i = 0; i < count; ++i)
      y[begin + i] = keep[std::size_t(i)] ? x[(begin + i) * stride] * scale : T(0);
  }
}

// Applies dropout with the mask of one key. This multiplies x by a diagonal matrix, so drop() is
// its own vjp.
Tensor drop(const Tensor& x, double p, std::uint64_t key) {
  Tensor y = empty_like(x);
  const kernels::DropoutMask mask(key, p);
  dispatch_floating(x.dtype(), kDropout, [&]<class T> {
    T* out = y.mutable_data<T>();
    const T* in = x.data<T>();
    // The output is row-major, so the offset of an element is its index.
    for_each_run(StridedLoop<2>(y.shape(), {&y.strides(), &x.strides()}), kPhiloxCost,
                 [&](const auto& at, Index n, const auto& s) {
                   drop_run(out + at[0], in + at[1], s[1], n, at[0], mask, T(1 / (1 - p)));
                 });
  });
  return record(kDropout, {x}, y,
                [p, key](const Vjp& v) -> Grads { return {drop(v.grad, p, key)}; });
}

void check_arguments(const Tensor& x, double p) {
  check<ValueError>(p >= 0 && p <= 1, kDropout, "needs a probability p in [0, 1], got ", p);
  check<DTypeError>(is_floating(x.dtype()), kDropout, "needs float32 or float64, got ", x.dtype());
}

}  // namespace

Tensor dropout(const Tensor& x, double p, std::uint64_t key) {
  check_arguments(x, p);
  return p == 0 ? x : drop(x, p, key);
}

Tensor dropout(const Tensor& x, double p, Generator& g) {
  check_arguments(x, p);
  if (p == 0) return x;  // draws no key; any other p draws one key, for any shape
  return drop(x, p, g.next_u64());
}

namespace {

Samples dropout_samples(SampleGen& g) {
  const auto dropout_with = [](double p) {
    return [p](Args t) {
      Generator fixed(7);  // new in every call, so that equal inputs give equal results
      return dropout(t[0], p, fixed);
    };
  };
  const auto squared = [dropout_with](Args t) {
    return dropout_with(0.4)(std::array{t[0] * t[0]});
  };
  return {{"p = 0.3", dropout_with(0.3), {g.normal({3, 5})}},
          {"of a square", squared, {g.normal({2, 3, 4})}},
          {"rank 0", dropout_with(0.5), {g.normal({})}},
          {"p = 0", dropout_with(0), {g.normal({2, 3})}},
          {"p = 1", dropout_with(1), {g.normal({2, 3})}},
          {"size 0", dropout_with(0.5), {g.normal({2, 0})}}};
}

}  // namespace

}  // namespace heed::autograd
