// linear: x W^T + b in one kernel, a small example of a fused op.
#include "autograd/graph/graph.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/operands.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

Samples linear_samples(SampleGen& g);
const Op kLinear({.name = "linear",
                  .saves = Saves::kInputs,
                  .samples = linear_samples,
                  .no_sizes = needs_axis()});

// Computes C = A B, plus `bias` [n] if it is not null, for A [m, k] and B [k, n]. The strides of A
// and B are given; C is row-major.
template <class T>
void multiply_rows(T* c, const T* a, Index a_row, Index a_col, const T* b, Index b_row, Index b_col,
                   Index m, Index n, Index k, const T* bias = nullptr) {
  kernels::Gemm<T> g;
  g.m = m, g.n = n, g.k = k;
  g.a = a, g.a_row = a_row, g.a_col = a_col;
  g.b = b, g.b_row = b_row, g.b_col = b_col;
  g.c = c, g.c_row = n, g.c_col = 1;
  g.bias = bias;
  kernels::gemm(g);
}

// Returns the product of the sizes of all axes except the last. It is not computed as number of
// elements / last size, because the last size may be 0.
Index row_count(const Shape& shape) { return shape.without(-1).numel(); }

// Returns x w^T + bias for x [rows, in] and w [out, in], where x and `bias` are contiguous. The
// result has the given shape [..., out], whose leading axes have `rows` elements in total.
// `bias` may be undefined.
Tensor linear_forward(const Tensor& x, const Tensor& w, const Tensor& bias, const Shape& shape) {
  Tensor y = empty(shape, x.dtype());
  const Index in = w.size(1), out = w.size(0);
  dispatch_floating(x.dtype(), kLinear, [&]<class T> {
    multiply_rows<T>(y.mutable_data<T>(), x.data<T>(), in, 1, w.data<T>(), w.strides()[1],
                     w.strides()[0], row_count(shape), out, in,
                     bias.defined() ? bias.data<T>() : nullptr);
  });
  return y;
}

Grads linear_backward(const Vjp& v) {
  const Tensor g = contiguous(v.grad), x = contiguous(v.input(0)), w = v.input(1);
  const Index out = w.size(0), in = w.size(1);
  const Index rows = row_count(x.shape());
  Grads grads(3);
  dispatch_floating(x.dtype(), kLinear, [&]<class T> {
    const T* pg = g.data<T>();
    if (v.needs(0)) {  // dx = g w
      grads[0] = empty_like(x);
      multiply_rows<T>(grads[0].template mutable_data<T>(), pg, out, 1, w.data<T>(), w.strides()[0],
                       w.strides()[1], rows, in, out);
    }
    if (v.needs(1)) {  // dw = g^T x
      grads[1] = empty_like(w);
      multiply_rows<T>(grads[1].template mutable_data<T>(), pg, 1, out, x.data<T>(), in, 1, out, in,
                       rows);
    }
  });
  if (v.needs(2)) grads[2] = sum_to(v.grad, v.input(2).shape());
  return grads;
}

Tensor linear_by_definition(Args t) {
  const Tensor y = matmul(t[0], mT(t[1]));
  return t[2].defined() ? y + t[2] : y;
}

}  // namespace

Tensor linear(const Tensor& x_in, const Tensor& w_in, const Tensor& b_in) {
  check(w_in.rank() == 2 && x_in.rank() >= 1 && x_in.size(-1) == w_in.size(1), kLinear,
        "needs x [..., in] and weight [out, in], got ", x_in.shape(), " and ", w_in.shape());
  check(!b_in.defined() || b_in.shape() == Shape{w_in.size(0)}, kLinear, "needs bias [",
        w_in.size(0), "], got ", b_in.defined() ? b_in.shape() : Shape{});
  Tensor x = x_in, w = w_in, b = b_in;
  detail::unify(kLinear, x, w, b);
  const Shape shape = x.shape().with(-1, w.size(0));
  return record(
      kLinear, {x_in, w_in, b_in},
      linear_forward(detail::row_major(std::move(x)), w, detail::row_major(std::move(b)), shape),
      linear_by_definition, linear_backward);
}

namespace {

Samples linear_samples(SampleGen& g) {
  const auto with_bias = [](Args t) { return linear(t[0], t[1], t[2]); };
  const auto without = [](Args t) { return linear(t[0], t[1]); };
  return {{"bias", with_bias, {g.normal({2, 3}), g.normal({4, 3}), g.normal({4})}},
          {"batched, no bias", without, {g.normal({2, 2, 3}), g.normal({4, 3})}},
          {"vector", with_bias, {g.normal({3}), g.normal({2, 3}), g.normal({2})}},
          {"no rows", with_bias, {g.normal({0, 3}), g.normal({2, 3}), g.normal({2})}}};
}

}  // namespace

}  // namespace heed::autograd
