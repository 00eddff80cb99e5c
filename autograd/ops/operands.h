// The prologue of ops: one dtype for all operands before a kernel runs. For autograd's own files.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "autograd/tensor/tensor.h"

namespace heed::autograd::detail {

/// Makes the dtypes of an op's operands equal and returns it: lifts float64 where another operand
/// is dual64 or tracked64; DTypeError naming both for any other mix. Undefined tensors are left
/// alone, but the first.
DType unify(std::string_view op, std::span<Tensor* const> operands);
template <class... Tensors>
DType unify(std::string_view op, Tensors&... operands) {
  return unify(op, std::span<Tensor* const>(std::array{&operands...}));
}

/// float64 as `like`'s dual64 or tracked64 with tangent 0, contiguous; a tensor of that dtype as it
/// is. With noise if `like` has it: constants are rounded, too.
Tensor lift(std::string_view op, const Tensor& x, const Tensor& like);

/// The seed of the noise in a tracked64 tensor (base/tracked.h); 0 for none and for other dtypes.
std::uint64_t noise_seed(const Tensor& x);

/// A `double` operand as a tensor of x's dtype; DTypeError for a fraction beside int64.
Tensor scalar_like(std::string_view op, const Tensor& x, double value);

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

}  // namespace heed::autograd::detail
