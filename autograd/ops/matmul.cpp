// matmul: the product of 1-D, 2-D and batched operands. The operands may have any strides and are
// not copied, and batch axes broadcast. linear: x W^T + b in one kernel.
#include <algorithm>

#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/kernels.h"
#include "autograd/ops/operands.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {
namespace {

Samples matmul_samples(SampleGen& g) {
  const auto f = [](Args t) { return matmul(t[0], t[1]); };
  return {{"2-D", f, {g.normal({2, 3}), g.normal({3, 4})}},
          {"batched", f, {g.normal({2, 2, 3}), g.normal({2, 3, 2})}},
          {"broadcast batch", f, {g.normal({2, 1, 2, 3}), g.normal({4, 3, 2})}},
          {"notebook 4", f, {g.normal({2, 3, 2}), g.normal({2, 2, 2, 4})}},
          {"vector vector", f, {g.normal({3}), g.normal({3})}},
          {"matrix vector", f, {g.normal({2, 3}), g.normal({3})}},
          {"vector batch", f, {g.normal({3}), g.normal({2, 3, 4})}},
          {"x times x^T", [](Args t) { return matmul(t[0], mT(t[0])); }, {g.normal({2, 3})}},
          {"k = 0", f, {g.normal({2, 0}), g.normal({0, 3})}},
          {"m = 0", f, {g.normal({0, 3}), g.normal({3, 2})}},
          {"all 1", f, {g.normal({1, 1}), g.normal({1, 1})}}};
}
const Op kMatmul({.name = "matmul",
                  .saves = Saves::kInputs,
                  .broadcasts = true,
                  .samples = matmul_samples,
                  .no_sizes = needs_axis()});

// Returns the product of a [..., m, k] and b [..., k, n]. The caller has checked that the batch
// axes broadcast to `batch`.
Tensor multiply(const Tensor& a, const Tensor& b, const Shape& batch) {
  const int rank = batch.rank();
  const Layout la = a.layout(), lb = b.layout();
  const Shape shape = batch.joined({la.shape[-2], lb.shape[-1]});
  Tensor c = empty(shape, a.dtype());
  const auto batch_strides = [&](const Layout& x) {
    const int r = x.shape.rank() - 2;
    return expanded(kMatmul, {x.shape.sub(0, r), x.strides.sub(0, r), 0}, batch).strides;
  };
  const Strides sa = batch_strides(la), sb = batch_strides(lb), sc = c.strides().sub(0, rank);
  dispatch_floating(a.dtype(), kMatmul, [&]<class T> {
    kernels::Gemm<T> g;
    g.m = shape[rank], g.n = shape[rank + 1], g.k = la.shape.back();
    g.a_row = la.strides[-2], g.a_col = la.strides[-1];
    g.b_row = lb.strides[-2], g.b_col = lb.strides[-1];
    g.c_row = shape[rank + 1], g.c_col = 1;
    // The kernel handles the last two batch axes. This function loops over the others.
    const int outer = std::max(0, rank - 2);
    for (int i = outer; i < rank; ++i) {
      const int slot = i - outer + (rank - outer == 1 ? 1 : 0);
      g.batch[slot] = batch[i];
      g.a_batch[slot] = sa[i], g.b_batch[slot] = sb[i], g.c_batch[slot] = sc[i];
    }
    const Strides oa = sa.sub(0, outer), ob = sb.sub(0, outer), oc = sc.sub(0, outer);
    StridedLoop<3>(batch.sub(0, outer), {&oc, &oa, &ob})
        .run([&](const auto& at, std::int64_t n, const auto& s) {
          for (std::int64_t i = 0; i < n; ++i) {
            g.c = c.mutable_data<T>() + at[0] + i * s[0];
            g.a = a.data<T>() + at[1] + i * s[1];
            g.b = b.data<T>() + at[2] + i * s[2];
            kernels::gemm(g);
          }
        });
  });
  return c;
}

Samples linear_samples(SampleGen& g) {
  const auto with_bias = [](Args t) { return linear(t[0], t[1], t[2]); };
  const auto without = [](Args t) { return linear(t[0], t[1]); };
  return {{"bias", with_bias, {g.normal({2, 3}), g.normal({4, 3}), g.normal({4})}},
          {"batched, no bias", without, {g.normal({2, 2, 3}), g.normal({4, 3})}},
          {"vector", with_bias, {g.normal({3}), g.normal({2, 3}), g.normal({2})}},
          {"no rows", with_bias, {g.normal({0, 3}), g.normal({2, 3}), g.normal({2})}}};
}
const Op kLinear({.name = "linear",
                  .saves = Saves::kInputs,
                  .samples = linear_samples,
                  .no_sizes = needs_axis()});

// Computes C = A B, plus `bias` [n] if it is not null, for A [m, k] and B [k, n]. The strides of A
// and B are given; C is row-major.
template <class T>
void multiply_rows(T* c, const T* a, std::int64_t a_row, std::int64_t a_col, const T* b,
                   std::int64_t b_row, std::int64_t b_col, std::int64_t m, std::int64_t n,
                   std::int64_t k, const T* bias = nullptr) {
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
std::int64_t row_count(const Shape& shape) { return shape.without(-1).numel(); }

// Returns x w^T + bias for x [rows, in] and w [out, in], where x and `bias` are contiguous. The
// result has the given shape, which is [rows, out] or has several leading axes instead of `rows`.
// `bias` may be undefined.
Tensor linear_forward(const Tensor& x, const Tensor& w, const Tensor& bias, const Shape& shape) {
  Tensor y = empty(shape, x.dtype());
  const std::int64_t in = w.size(1), out = w.size(0);
  dispatch_floating(x.dtype(), kLinear, [&]<class T> {
    multiply_rows<T>(y.mutable_data<T>(), x.data<T>(), in, 1, w.data<T>(), w.strides()[1],
                     w.strides()[0], row_count(shape), out, in,
                     bias.defined() ? bias.data<T>() : nullptr);
  });
  return y;
}

Grads linear_backward(const Vjp& v) {
  const Tensor g = contiguous(v.grad), x = contiguous(v.input(0)), w = v.input(1);
  const std::int64_t out = w.size(0), in = w.size(1);
  const std::int64_t rows = row_count(x.shape());
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

Tensor matmul(const Tensor& a, const Tensor& b) {
  check(a.rank() >= 1 && b.rank() >= 1, kMatmul, "needs rank >= 1, got ", a.shape(), " x ",
        b.shape());
  const std::int64_t inner = b.size(b.rank() == 1 ? 0 : -2);
  check(a.size(-1) == inner, kMatmul, "needs [..., m, k] x [..., k, n], got ", a.shape(), " x ",
        b.shape());
  // A 1-D operand a is used as a row, and a 1-D operand b as a column. The axis that is added here
  // is removed from the result.
  if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0), b), b.rank() == 1 ? 0 : -2);
  if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  const Shape batch =
      broadcast(kMatmul, a.shape().sub(0, a.rank() - 2), b.shape().sub(0, b.rank() - 2));
  Tensor l = a, r = b;
  detail::unify(kMatmul, l, r);
  return record(kMatmul, {a, b}, multiply(l, r, batch), [](const Vjp& v) -> Grads {
    return {v.needs(0) ? matmul(v.grad, mT(v.input(1))) : Tensor(),
            v.needs(1) ? matmul(mT(v.input(0)), v.grad) : Tensor()};
  });
}

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

}  // namespace heed::autograd
