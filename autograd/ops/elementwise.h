// elementwise(): what elementwise ops are made of. An op gives a function of scalars; per dtype it
// becomes one loop over adjacent values, and operands that lie otherwise are brought into that form
// piece by piece.
#pragma once

#include <array>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

#include "autograd/kernels/simd/simd.h"
#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// The element types T of the operands that a function takes. Result is void if it returns the T
/// that it was given.
template <class Result, class... T>
struct Domain {};
using FloatingDomain = Domain<void, float, double, Dual, Tracked>;
using NumericDomain = Domain<void, float, double, Dual, Tracked, std::int64_t>;
/// Every dtype, with a result of bool8.
using ComparisonDomain = Domain<bool, float, double, Dual, Tracked, std::int64_t, bool>;

/// The same function over n adjacent float32 values, for elementwise() to run where SIMD does.
using SimdMap = void (*)(float* y, const float* x, std::int64_t n);
using SimdZip = void (*)(float* y, const float* a, const float* b, std::int64_t n);

namespace detail {

/// y[i] = f(in[0][i], in[1][i], ...) for n adjacent elements of each; `f` is the function object.
using Loop = void (*)(const void* f, void* y, const void* const* in, std::int64_t n);
/// An op's loop for each dtype, in the order of DType; null where the op does not take it.
struct Loops {
  std::array<Loop, 6> of{};
  bool to_bool = false;  ///< the result is bool8, not of the operands' dtype
};

/// The loop over y of R and operands of A....
template <class F, class R, class... A>
void run_loop(const void* f, void* y, const void* const* in, std::int64_t n) {
  const F g = *static_cast<const F*>(f);
  R* out = static_cast<R*>(y);
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    const auto over = [&](const A*... p) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = g(p[i]...);
    };
    over(static_cast<const A*>(in[K])...);
  }
  (std::index_sequence_for<A...>());
}

/// The loops of f over kOperands operands of each T of a domain.
template <class F, int kOperands, class Result, class... T>
constexpr Loops make_loops(Domain<Result, T...>) {
  Loops loops{.to_bool = std::is_same_v<Result, bool>};
  const auto add = [&]<class A> {
    using R = std::conditional_t<std::is_void_v<Result>, A, Result>;
    if constexpr (kOperands == 1)
      loops.of[std::size_t(kDTypeOf<A>)] = run_loop<F, R, A>;
    else
      loops.of[std::size_t(kDTypeOf<A>)] = run_loop<F, R, A, A>;
  };
  (add.template operator()<T>(), ...);
  return loops;
}
template <class F, int kOperands, class D>
inline constexpr Loops kLoops = make_loops<F, kOperands>(D{});

/// Loops of float32 alone, whose f is a SimdMap or SimdZip.
extern const Loops kSimdMap, kSimdZip;

/// loop over all of `out` (contiguous), in parallel, its operands broadcast to out's shape.
void run(const Tensor& out, std::initializer_list<const Tensor*> in, Loop loop, const void* f);
/// Returns a new tensor of the broadcast shape of one or two operands, filled by the loop for their
/// dtype.
Tensor run_new(std::string_view op, std::initializer_list<const Tensor*> in, const Loops& loops,
               const void* f);

}  // namespace detail

/// Returns a new tensor f(x) of x's shape; f is called with scalars of each type of the domain D.
/// DTypeError naming `op` for another dtype.
template <class D = FloatingDomain, class F>
Tensor elementwise(std::string_view op, const Tensor& x, const F& f, SimdMap simd = nullptr) {
  if (simd && x.dtype() == float32 && kernels::simd_runs())
    return detail::run_new(op, {&x}, detail::kSimdMap, &simd);
  return detail::run_new(op, {&x}, detail::kLoops<F, 1, D>, &f);
}

/// Returns a new tensor f(a, b) of the broadcast shape; ShapeError or DTypeError naming `op` and
/// both operands.
template <class D = FloatingDomain, class F>
Tensor elementwise(std::string_view op, const Tensor& a, const Tensor& b, const F& f,
                   SimdZip simd = nullptr) {
  if (simd && a.dtype() == float32 && kernels::simd_runs())
    return detail::run_new(op, {&a, &b}, detail::kSimdZip, &simd);
  return detail::run_new(op, {&a, &b}, detail::kLoops<F, 2, D>, &f);
}

/// Fills out (contiguous, of R) with f(in...), elementwise: operands of A... broadcast to its
/// shape.
template <class R, class... A, class F, class... Tensors>
void elementwise_into(const Tensor& out, const F& f, const Tensors&... in) {
  detail::run(out, {&in...}, detail::run_loop<F, R, A...>, &f);
}

}  // namespace heed::autograd
