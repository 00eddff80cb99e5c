// What elementwise ops are made of: the one operand prologue (dtypes, dual numbers, broadcasting)
// and loops that apply a scalar function.
#pragma once

#include <algorithm>

#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {

/// x itself if row-major, else a row-major copy (ops.h).
Tensor contiguous(const Tensor& x);

/// float64 as dual64 with tangent 0, contiguous; dual64 as it is.
Tensor lift(std::string_view op, const Tensor& x);

/// A `double` operand as a tensor of x's dtype; DTypeError for a fraction beside int64.
Tensor scalar_like(std::string_view op, const Tensor& x, double value);

/// Makes the dtypes of an op's operands equal: lifts float64 where another operand is dual64;
/// DTypeError naming both for any other mix. Undefined tensors are left alone.
template <class... Tensors>
DType unify(std::string_view op, Tensor& first, Tensors&... rest) {
  const auto merge = [&](DType a, DType b) {
    if (a == b) return a;
    const bool dual = (a == dual64 && b == float64) || (a == float64 && b == dual64);
    check<DTypeError>(dual, op, "dtypes differ: ", a, " and ", b,
                      "; convert one with to(x, dtype)");
    return dual64;
  };
  DType dtype = first.dtype();
  ((dtype = rest.defined() ? merge(dtype, rest.dtype()) : dtype), ...);
  if (dtype == dual64) {
    first = lift(op, first);
    ((rest = rest.defined() ? lift(op, rest) : rest), ...);
  }
  return dtype;
}

/// out (contiguous) = f(x), elementwise.
template <class R, class T, class F>
void map_into(const Tensor& out, const Tensor& x, F f) {
  R* y = out.mutable_data<R>();
  const T* in = x.data<T>();
  const auto contiguous = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) y[i] = f(in[i]);
  };
  if (x.is_contiguous()) return parallel_for(out.numel(), kGrain, contiguous);
  for_each_run(StridedLoop<2>(out.shape(), {&out.strides(), &x.strides()}),
               [&](const auto& at, std::int64_t n, const auto& s) {
                 for (std::int64_t i = 0; i < n; ++i) y[at[0] + i * s[0]] = f(in[at[1] + i * s[1]]);
               });
}

/// x into the memory that starts at `y` and has these strides, of x's shape.
template <class T>
void copy_into(T* y, const Strides& strides, const Tensor& x) {
  const T* in = x.data<T>();
  if (x.numel() <= 64 && x.is_contiguous() && strides == x.strides()) {  // not worth a loop's setup
    std::copy_n(in, x.numel(), y);
    return;
  }
  for_each_run(StridedLoop<2>(x.shape(), {&strides, &x.strides()}),
               [&](const auto& at, std::int64_t n, const auto& s) {
                 if (s[0] == 1 && s[1] == 1) {
                   std::copy_n(in + at[1], n, y + at[0]);
                   return;
                 }
                 for (std::int64_t i = 0; i < n; ++i) y[at[0] + i * s[0]] = in[at[1] + i * s[1]];
               });
}

/// x's values in fresh row-major storage, without history.
Tensor copy_of(const Tensor& x);

/// A new tensor f(x) of x's shape and (floating) dtype.
template <class F>
Tensor map(std::string_view op, const Tensor& x, F f) {
  return dispatch_floating(x.dtype(), op, [&]<class T> {
    Tensor y = empty_like(x);
    map_into<T, T>(y, x, f);
    return y;
  });
}

/// loop(begin, n) over pieces of [0, size), in parallel; for loops of kernels/vector.h, whose
/// elements cost a few additions.
template <class Loop>
void in_chunks(std::int64_t size, Loop loop) {
  parallel_for(size, kGrain / 2,
               [&](std::int64_t begin, std::int64_t end) { loop(begin, end - begin); });
}

/// The same as map(op, x, f), where float32 runs loop(y, x, n), f over adjacent values.
template <class F>
Tensor map(std::string_view op, const Tensor& x, F f,
           void (*loop)(float*, const float*, std::int64_t)) {
  if (x.dtype() != float32) return map(op, x, f);
  const Tensor in = contiguous(x.detach()), y = empty_like(x);
  in_chunks(x.numel(), [&](std::int64_t i, std::int64_t n) {
    loop(y.mutable_data<float>() + i, in.data<float>() + i, n);
  });
  return y;
}

/// out (contiguous, of the broadcast shape) = f(a, b), elementwise.
template <class R, class A, class B, class F>
void zip_into(const Tensor& out, const Tensor& a, const Tensor& b, F f) {
  R* y = out.mutable_data<R>();
  const A* pa = a.data<A>();
  const B* pb = b.data<B>();
  const Shape& shape = out.shape();
  if (a.shape() == shape && b.shape() == shape && a.is_contiguous() && b.is_contiguous())
    return parallel_for(out.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) y[i] = f(pa[i], pb[i]);
    });
  const Strides sa = expanded("zip", a.layout(), shape).strides;
  const Strides sb = expanded("zip", b.layout(), shape).strides;
  for_each_run(StridedLoop<3>(shape, {&out.strides(), &sa, &sb}),
               [&](const auto& at, std::int64_t n, const auto& s) {
                 R* o = y + at[0];
                 const A* l = pa + at[1];
                 const B* r = pb + at[2];
                 if (s[0] == 1 && s[1] == 1 && s[2] == 1)
                   for (std::int64_t i = 0; i < n; ++i) o[i] = f(l[i], r[i]);
                 else if (s[0] == 1 && s[1] == 1 && s[2] == 0)
                   for (std::int64_t i = 0; i < n; ++i) o[i] = f(l[i], *r);
                 else
                   for (std::int64_t i = 0; i < n; ++i) o[i * s[0]] = f(l[i * s[1]], r[i * s[2]]);
               });
}

/// Brings a and b to one dtype, then calls go(a, b).
template <class Go>
Tensor with_unified(std::string_view op, const Tensor& a, const Tensor& b, Go go) {
  if (a.dtype() == b.dtype()) return go(a, b);
  Tensor x = a, y = b;
  unify(op, x, y);
  return go(x, y);
}

/// A new tensor f(a, b) of the broadcast shape; floating dtypes.
template <class F>
Tensor zip(std::string_view op, const Tensor& a, const Tensor& b, F f) {
  return with_unified(op, a, b, [&](const Tensor& x, const Tensor& y) {
    Tensor out = empty(broadcast(op, x.shape(), y.shape()), x.dtype());
    dispatch_floating(x.dtype(), op, [&]<class T> { zip_into<T, T, T>(out, x, y, f); });
    return out;
  });
}

/// The same, for int64 too.
template <class F>
Tensor zip_numeric(std::string_view op, const Tensor& a, const Tensor& b, F f) {
  return with_unified(op, a, b, [&](const Tensor& x, const Tensor& y) {
    Tensor out = empty(broadcast(op, x.shape(), y.shape()), x.dtype());
    dispatch_numeric(x.dtype(), op, [&]<class T> { zip_into<T, T, T>(out, x, y, f); });
    return out;
  });
}

/// The same for every dtype, giving bool8.
template <class F>
Tensor zip_to_bool(std::string_view op, const Tensor& a, const Tensor& b, F f) {
  return with_unified(op, a, b, [&](const Tensor& x, const Tensor& y) {
    Tensor out = empty(broadcast(op, x.shape(), y.shape()), bool8);
    dispatch_any(x.dtype(), [&]<class T> { zip_into<bool, T, T>(out, x, y, f); });
    return out;
  });
}

}  // namespace heed::autograd
