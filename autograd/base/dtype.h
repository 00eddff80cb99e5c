// Run-time element types (dtypes), and the functions that map a dtype to a C++ type.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

#include "autograd/base/error.h"
#include "autograd/base/tracked.h"

namespace heed::autograd {

/// Type of a tensor's elements, chosen at run time.
enum class DType : std::uint8_t {
  float32,  ///< 32-bit IEEE float; a tensor of this dtype can require grad
  float64,  ///< 64-bit IEEE float; a tensor of this dtype can require grad
  int64,    ///< signed 64-bit integer, for indices
  bool8,    ///< truth value in one byte, for masks
  /// A float64 with its derivative (the tangent) and an estimate of the derivative's error; used
  /// only inside autograd/check/.
  tracked64
};
using enum DType;

/// Returns the name of a dtype, for example "float32".
std::string_view dtype_name(DType dtype);
/// Returns true for float32 and float64.
constexpr bool is_real(DType d) { return d == float32 || d == float64; }
/// Returns true for float32, float64 and tracked64.
constexpr bool is_floating(DType d) { return is_real(d) || d == tracked64; }
/// Returns true if an op accepts numbers of both dtypes: they are equal, or one is float64 and the
/// other one is tracked64, to which the op converts the float64 numbers.
constexpr bool can_mix(DType a, DType b) {
  return a == b || (a == float64 && b == tracked64) || (a == tracked64 && b == float64);
}
/// Appends dtype_name(dtype) to `out`.
void append_text(std::string& out, DType dtype);
/// Prints dtype_name(dtype).
std::ostream& operator<<(std::ostream& out, DType dtype);

/// Maps a C++ element type to its DType. DTypeOf<T>::value exists only for element types.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, float32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, float64> {};
template <>
struct DTypeOf<std::int64_t> : std::integral_constant<DType, int64> {};
template <>
struct DTypeOf<bool> : std::integral_constant<DType, bool8> {};
template <>
struct DTypeOf<Tracked> : std::integral_constant<DType, tracked64> {};
/// The DType whose elements have the C++ type T.
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;
/// C++ types of tensor elements: float, double, std::int64_t, bool and Tracked.
template <class T>
concept Element = requires {
  DTypeOf<T>::value;
};

/// Converts `value` to the element type T. If T is int64, the conversion truncates toward 0, and it
/// throws ValueError if the value is NaN or outside the range of int64, because a plain cast would
/// be undefined behavior. The text of the error contains `op` and the value.
template <class T>
T checked_cast(std::string_view op, double value) {
  if constexpr (kDTypeOf<T> == int64)
    check<ValueError>(value >= -0x1p63 && value < 0x1p63, op, value,
                      " is outside the range of int64");
  return T(value);
}

/// Returns true if x is not 0, but is 0 when it is converted to `dtype`, such as 1e-46 to float32.
inline bool rounds_to_zero(double x, DType dtype) {
  return dtype == DType::float32 && x != 0 && float(x) == 0;
}

/// Calls the generic lambda `f` with the C++ type of `dtype` (float, double or Tracked) as
/// its template argument, and returns the result. Throws DTypeError for any other dtype. The text
/// of the error starts with `op`.
template <class F>
decltype(auto) dispatch_floating(DType dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case float32:
      return f.template operator()<float>();
    case float64:
      return f.template operator()<double>();
    case tracked64:
      return f.template operator()<Tracked>();
    default:
      fail<DTypeError>(op, "needs float32 or float64, got ", dtype);
  }
}

/// Like dispatch_floating(), but also accepts int64. Throws DTypeError for bool8.
template <class F>
decltype(auto) dispatch_numeric(DType dtype, std::string_view op, F&& f) {
  if (dtype == int64) return f.template operator()<std::int64_t>();
  check<DTypeError>(dtype != bool8, op, "needs float32, float64 or int64, got bool8");
  return dispatch_floating(dtype, op, f);
}

/// Like dispatch_floating(), but accepts every dtype.
template <class F>
decltype(auto) dispatch_any(DType dtype, F&& f) {
  if (dtype == bool8) return f.template operator()<bool>();
  return dispatch_numeric(dtype, "dtype", f);
}

/// Returns the size of one element in bytes.
inline std::int64_t element_size(DType dtype) {
  constexpr std::size_t kSizes[] = {sizeof(float), sizeof(double), sizeof(std::int64_t),
                                    sizeof(bool), sizeof(Tracked)};
  return std::int64_t(kSizes[std::size_t(dtype)]);
}

}  // namespace heed::autograd
