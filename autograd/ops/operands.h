// Conversion of the operands of an op to one dtype, before a kernel runs. Internal to autograd.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <type_traits>

#include "autograd/tensor/tensor.h"

namespace heed::autograd::detail {

///@{
/// Makes the dtypes of all operands equal and returns the common dtype. If an operand is
/// tracked64, float64 operands are converted to it. Any other mix throws DTypeError, whose
/// message has both dtypes. Undefined operands are skipped. The first operand must be defined.
DType unify(std::string_view op, std::span<Tensor* const> operands);
template <class... Tensors>
DType unify(std::string_view op, Tensors&... operands) {
  return unify(op, std::span<Tensor* const>(std::array{&operands...}));
}
///@}

/// Converts the float64 tensor x to tracked64. The result is contiguous and has tangent 0.
Tensor lift(const Tensor& x);

/// Converts a `double` operand to a tensor of rank 0 with x's dtype. Throws DTypeError if x is
/// int64 and the value is not a whole number in the range of int64.
Tensor scalar_like(std::string_view op, const Tensor& x, double value);

/// Returns a function that computes f(a, b). It converts int64 operands to uint64 first, so that an
/// overflow wraps around as in PyTorch.
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
