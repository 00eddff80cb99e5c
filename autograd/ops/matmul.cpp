// matmul: the product of 1-D, 2-D and batched operands. The operands may have any strides and are
// not copied, and batch axes broadcast.
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

Samples matmul_samples(SampleGen& g);
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
        .run([&](const auto& at, Index n, const auto& s) {
          for (Index i = 0; i < n; ++i) {
            g.c = c.mutable_data<T>() + at[0] + i * s[0];
            g.a = a.data<T>() + at[1] + i * s[1];
            g.b = b.data<T>() + at[2] + i * s[2];
            kernels::gemm(g);
          }
        });
  });
  return c;
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  check(a.rank() >= 1 && b.rank() >= 1, kMatmul, "needs rank >= 1, got ", a.shape(), " x ",
        b.shape());
  const Index inner = b.size(b.rank() == 1 ? 0 : -2);
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

}  // namespace

}  // namespace heed::autograd
