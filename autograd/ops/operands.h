// Conversion of the operands of an op to one dtype, before a kernel runs. Internal to autograd.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "autograd/tensor/tensor.h"

namespace heed::autograd::detail {

///@{
/// Makes the dtypes of all operands equal and returns this dtype. If an operand is dual64 or
/// tracked64, float64 operands are converted to that dtype. Throws DTypeError, with both dtypes in
/// the text, for any other mix. Undefined operands are skipped; the first operand must be defined.
DType unify(std::string_view op, std::span<Tensor* const> operands);
template <class... Tensors>
DType unify(std::string_view op, Tensors&... operands) {
  return unify(op, std::span<Tensor* const>(std::array{&operands...}));
}
///@}

/// Converts a float64 tensor to the dtype of `like`, dual64 or tracked64, with tangent 0. The
/// result is contiguous. Returns x itself if it has that dtype. If `like` carries rounding noise,
/// the result does too, because constants are also rounded. Throws DTypeError for any other dtype
/// of x.
Tensor lift(std::string_view op, const Tensor& x, const Tensor& like);

/// Returns the seed of the rounding noise in a tracked64 tensor (base/tracked.h), or 0 if it has no
/// noise or another dtype.
std::uint64_t noise_seed(const Tensor& x);

/// Converts a `double` operand to a tensor of rank 0 and x's dtype (float64 for dual numbers).
/// Throws DTypeError if x is int64 and the value is not an int64.
Tensor scalar_like(std::string_view op, const Tensor& x, double value);

/// Returns f, except that int64 operands are computed as uint64, so that an overflow wraps around
/// as in PyTorch.
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
