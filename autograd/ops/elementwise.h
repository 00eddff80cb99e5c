// elementwise(): the building block of elementwise ops. An op passes a function of scalars, which
// is compiled into one loop over adjacent values for each dtype. An operand whose values are not
// adjacent is copied, one piece at a time, into a buffer of adjacent values.
#pragma once

#include <array>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <utility>

#include "autograd/kernels/simd/simd.h"
#include "autograd/tensor/tensor.h"

namespace heed::autograd {

/// List of the element types T that a function accepts. In one call, all operands have the same
/// element type T. `Result` is the element type of the result; void means T.
template <class Result, class... T>
struct Domain {};
/// Floating dtypes; the result has the dtype of the operands.
using FloatingDomain = Domain<void, float, double, Tracked>;
/// Floating dtypes and int64; the result has the dtype of the operands.
using NumericDomain = Domain<void, float, double, Tracked, Index>;
/// All dtypes; the result is bool8.
using ComparisonDomain = Domain<bool, float, double, Tracked, Index, bool>;

///@{
/// SIMD kernel for n adjacent float32 values. elementwise() runs it instead of the scalar function
/// if SIMD kernels are enabled.
using SimdMap = void (*)(float* y, const float* x, Index n);
using SimdZip = void (*)(float* y, const float* a, const float* b, Index n);
///@}

namespace detail {

/// Sets y[i] = f(in[0][i], in[1][i], ...) for n adjacent elements. `f` points to the function
/// object.
using Loop = void (*)(const void* f, void* y, const void* const* in, Index n);
/// The loops of an op, one per dtype, in the order of DType. The loop is null for a dtype that the
/// op does not accept.
struct Loops {
  std::array<Loop, 5> of{};
  bool to_bool = false;  ///< true: the result is bool8; false: it has the dtype of the operands
};

/// A Loop for a result of type R and operands of the types A.
template <class F, class R, class... A>
void run_loop(const void* f, void* y, const void* const* in, Index n) {
  const F g = *static_cast<const F*>(f);
  R* out = static_cast<R*>(y);
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    const auto over = [&](const A*... p) {
      for (Index i = 0; i < n; ++i) out[i] = g(p[i]...);
    };
    over(static_cast<const A*>(in[K])...);
  }
  (std::index_sequence_for<A...>());
}

/// Returns the loops of F with kOperands operands for each T of a domain.
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

/// Loops for float32 only. Their `f` points to a SimdMap or a SimdZip.
extern const Loops kSimdMap, kSimdZip;

/// Fills the contiguous tensor `out` by calls of `loop`, in parallel. The operands broadcast to the
/// shape of `out`.
void run(const Tensor& out, std::initializer_list<const Tensor*> in, Loop loop, const void* f);
/// Returns a new tensor with the broadcast shape of one or two operands. It is filled by the loop
/// for their dtype.
Tensor run_new(std::string_view op, std::initializer_list<const Tensor*> in, const Loops& loops,
               const void* f);

}  // namespace detail

/// Returns a new tensor f(x) with x's shape. f is compiled for scalars of each type of the domain
/// D. Throws DTypeError for another dtype; the message begins with `op`.
template <class D = FloatingDomain, class F>
Tensor elementwise(std::string_view op, const Tensor& x, const F& f, SimdMap simd = nullptr) {
  if (simd && x.dtype() == float32 && kernels::simd_runs())
    return detail::run_new(op, {&x}, detail::kSimdMap, &simd);
  return detail::run_new(op, {&x}, detail::kLoops<F, 1, D>, &f);
}

/// Returns a new tensor f(a, b) with the broadcast shape. Throws ShapeError if the shapes do not
/// broadcast, and DTypeError if the dtypes differ or are not in the domain D.
template <class D = FloatingDomain, class F>
Tensor elementwise(std::string_view op, const Tensor& a, const Tensor& b, const F& f,
                   SimdZip simd = nullptr) {
  if (simd && a.dtype() == float32 && kernels::simd_runs())
    return detail::run_new(op, {&a, &b}, detail::kSimdZip, &simd);
  return detail::run_new(op, {&a, &b}, detail::kLoops<F, 2, D>, &f);
}

/// Fills `out` with f(in...), elementwise. `out` is contiguous and has elements of type R. The
/// operands have elements of types A... and broadcast to the shape of `out`.
template <class R, class... A, class F, class... Tensors>
void elementwise_into(const Tensor& out, const F& f, const Tensors&... in) {
  detail::run(out, {&in...}, detail::run_loop<F, R, A...>, &f);
}

}  // namespace heed::autograd
