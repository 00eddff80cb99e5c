#include "autograd/graph/inplace.h"

#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/kernels.h"
#include "autograd/tensor/copy.h"
#include "autograd/tensor/tensor_access.h"

namespace heed::autograd {
namespace {

void check_alike(std::string_view op, const Tensor& x, const Tensor& y) {
  check(x.shape() == y.shape(), op, "needs equal shapes, got ", x.shape(), " and ", y.shape());
  check<DTypeError>(x.dtype() == y.dtype(), op, "needs equal dtypes, got ", x.dtype(), " and ",
                    y.dtype());
}

// Returns a tensor with the values of `source` that does not change while x is written: `source`
// itself, or a copy if both are views of one storage.
Tensor readable(const Tensor& source, const Tensor& x) {
  return x.shares_storage(source) ? detached_copy(source) : source;
}

}  // namespace

void prepare_in_place(std::string_view op, const Tensor& x) {
  check<DTypeError>(x.dtype() != tracked64, op, "does not write into a ", x.dtype(), " tensor");
  check<ValueError>(!x.requires_grad() || (x.is_leaf() && !grad_enabled()), op,
                    "writes in place only into untracked leaves, or leaves under NoGrad; got a ",
                    x.shape(), x.is_leaf() ? " leaf that requires grad" : " result of an op");
  const int axis = x.layout().repeated_axis();
  check(axis < 0, op, "cannot write into an expanded tensor: ", x.shape(), " has stride 0 in axis ",
        axis);
  ++detail::TensorAccess::storage(x)->version;
}

void fill_(const Tensor& x, double value) {
  dispatch_any(x.dtype(), [&]<class T> {
    const T fill = checked_cast<T>("fill_", value);
    prepare_in_place("fill_", x);
    T* out = x.mutable_data<T>();
    StridedLoop<1>(x.shape(), {&x.strides()}).run([&](const auto& offset, Index n, const auto& s) {
      for (Index i = 0; i < n; ++i) out[offset[0] + i * s[0]] = fill;
    });
  });
}

void copy_(const Tensor& x, const Tensor& source) {
  check_alike("copy_", x, source);
  prepare_in_place("copy_", x);
  detail::copy_into(x, readable(source, x));
}

void add_(const Tensor& x, const Tensor& y_in) {
  check_alike("add_", x, y_in);
  prepare_in_place("add_", x);
  const Tensor y = readable(y_in, x);
  dispatch_floating(x.dtype(), "add_", [&]<class T> {
    T* out = x.mutable_data<T>();
    const T* in = y.data<T>();
    for_each_run(StridedLoop<2>(x.shape(), {&x.strides(), &y.strides()}),
                 [&](const auto& at, Index n, const auto& s) {
                   T* to = out + at[0];
                   const T* from = in + at[1];
                   if (s[0] == 1 && s[1] == 1)
                     kernels::add_into(to, from, n);
                   else
                     for (Index i = 0; i < n; ++i) to[i * s[0]] += from[i * s[1]];
                 });
  });
}

}  // namespace heed::autograd
