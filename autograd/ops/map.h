// What elementwise ops are made of: the one operand prologue (dtypes, dual numbers, broadcasting)
// and one driver of loops. An op gives a function of scalars; per dtype it becomes one loop over
// adjacent values, and operands that lie otherwise are brought into that form piece by piece.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "autograd/base/strided.h"
#include "autograd/graph/graph.h"
#include "autograd/kernels/simd/simd.h"
#include "autograd/ops/ops.h"
#include "autograd/tensor/create.h"

namespace heed::autograd {

/// float64 as `like`'s dual64 or tracked64 with tangent 0, contiguous; a tensor of that dtype as it
/// is. With noise if `like` has it: constants are rounded, too.
Tensor lift(std::string_view op, const Tensor& x, const Tensor& like);

/// The seed of the noise in a tracked64 tensor (base/tracked.h); 0 for none and for other dtypes.
std::uint64_t noise_seed(const Tensor& x);

/// A `double` operand as a tensor of x's dtype; DTypeError for a fraction beside int64.
Tensor scalar_like(std::string_view op, const Tensor& x, double value);

/// x's values in fresh row-major storage, without history.
Tensor detached_copy(const Tensor& x);

/// x's values in row-major order, to be read: x itself where they are, else a copy without history.
Tensor row_major(const Tensor& x);

/// y = x, two tensors of one shape and dtype; y is fresh, or a view of what is.
void copy_into(const Tensor& y, const Tensor& x);

/// A tensor's elements as bytes, whatever its dtype.
struct Elements {
  std::int64_t size;  ///< of one
  std::byte* first;
  explicit Elements(const Tensor& x)
      : size(element_size(x.dtype())), first(x.storage()->data() + x.layout().offset * size) {}
  std::byte* at(std::int64_t i) const { return first + i * size; }
};
/// n elements of `size` bytes from x to y; strides in elements.
void copy_elements(std::byte* y, std::int64_t y_stride, const std::byte* x, std::int64_t x_stride,
                   std::int64_t n, std::int64_t size);

namespace detail {

DType unify(std::string_view op, std::span<Tensor* const> operands);

/// y[i] = f(in[0][i], in[1][i], ...) for n adjacent elements of each; `f` is the function object.
using Loop = void (*)(const void* f, void* y, const void* const* in, std::int64_t n);
/// An op's loop for each dtype, in the order of DType; null where the op does not take it.
using Loops = std::array<Loop, 6>;

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

/// Loops of one and of two operands of each T, into the same T; of two into bool.
template <class F, class... T>
inline constexpr Loops kUnary = [] {
  Loops loops{};
  ((loops[std::size_t(kDTypeOf<T>)] = run_loop<F, T, T>), ...);
  return loops;
}();
template <class F, class... T>
inline constexpr Loops kBinary = [] {
  Loops loops{};
  ((loops[std::size_t(kDTypeOf<T>)] = run_loop<F, T, T, T>), ...);
  return loops;
}();
template <class F, class... T>
inline constexpr Loops kComparison = [] {
  Loops loops{};
  ((loops[std::size_t(kDTypeOf<T>)] = run_loop<F, bool, T, T>), ...);
  return loops;
}();

/// Loops of float32 alone, whose f is a SimdMap or SimdZip.
extern const Loops kSimdMap, kSimdZip;

/// loop over all of `out` (contiguous), in parallel, its operands broadcast to out's shape.
void run(const Tensor& out, std::initializer_list<const Tensor*> in, Loop loop, const void* f);

Tensor map(std::string_view op, const Tensor& x, const Loops& loops, const void* f);
Tensor zip(std::string_view op, const Tensor& a, const Tensor& b, const Loops& loops,
           const void* f);
Tensor zip_to_bool(std::string_view op, const Tensor& a, const Tensor& b, const Loops& loops,
                   const void* f);

}  // namespace detail

/// Makes the dtypes of an op's operands equal: lifts float64 where another operand is dual64
/// or tracked64;
/// DTypeError naming both for any other mix. Undefined tensors are left alone, but the first.
template <class... Tensors>
DType unify(std::string_view op, Tensors&... operands) {
  return detail::unify(op, std::array{&operands...});
}

/// out (contiguous) = f(in...), elementwise: operands of A... broadcast to out's shape, out of R.
template <class R, class... A, class F, class... Tensors>
void map_into(const Tensor& out, const F& f, const Tensors&... in) {
  detail::run(out, {&in...}, detail::run_loop<F, R, A...>, &f);
}

/// f, but of uint64 for int64: what overflows wraps, as in PyTorch.
template <class F>
auto wrapping(F f) {
  return [f]<class T>(T a, T b) -> T {
    if constexpr (std::is_same_v<T, std::int64_t>)
      return T(f(std::uint64_t(a), std::uint64_t(b)));
    else
      return f(a, b);
  };
}

/// A new tensor f(x) of x's shape and (floating) dtype.
template <class F>
Tensor map(std::string_view op, const Tensor& x, F f) {
  return detail::map(op, x, detail::kUnary<F, float, double, Dual, Tracked>, &f);
}

/// A new tensor f(a, b) of the broadcast shape; floating dtypes.
template <class F>
Tensor zip(std::string_view op, const Tensor& a, const Tensor& b, F f) {
  return detail::zip(op, a, b, detail::kBinary<F, float, double, Dual, Tracked>, &f);
}

/// The same, for int64 too.
template <class F>
Tensor zip_numeric(std::string_view op, const Tensor& a, const Tensor& b, F f) {
  return detail::zip(op, a, b, detail::kBinary<F, float, double, Dual, Tracked, std::int64_t>, &f);
}

/// The same for every dtype, giving bool8.
template <class F>
Tensor zip_to_bool(std::string_view op, const Tensor& a, const Tensor& b, F f) {
  return detail::zip_to_bool(
      op, a, b, detail::kComparison<F, float, double, Dual, Tracked, std::int64_t, bool>, &f);
}

/// map, zip and zip_numeric where float32 runs `simd`, the same function over n adjacent values.
using SimdMap = void (*)(float* y, const float* x, std::int64_t n);
using SimdZip = void (*)(float* y, const float* a, const float* b, std::int64_t n);
template <class F>
Tensor map(std::string_view op, const Tensor& x, F f, SimdMap simd) {
  if (x.dtype() == float32 && kernels::simd_runs())
    return detail::map(op, x, detail::kSimdMap, &simd);
  return map(op, x, f);
}
template <class F>
Tensor zip_numeric(std::string_view op, const Tensor& a, const Tensor& b, F f, SimdZip simd) {
  if (a.dtype() == float32 && kernels::simd_runs())
    return detail::zip(op, a, b, detail::kSimdZip, &simd);
  return zip_numeric(op, a, b, f);
}
template <class F>
Tensor zip(std::string_view op, const Tensor& a, const Tensor& b, F f, SimdZip simd) {
  if (a.dtype() == float32 && kernels::simd_runs())
    return detail::zip(op, a, b, detail::kSimdZip, &simd);
  return zip(op, a, b, f);
}

}  // namespace heed::autograd
