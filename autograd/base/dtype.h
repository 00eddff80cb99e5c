// Run-time element types and the one place where they become C++ types.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

#include "autograd/base/error.h"
#include "autograd/base/tracked.h"

namespace heed::autograd {

/// float32, float64: may require grad. int64: indices. bool8: masks, one byte each.
/// dual64: a float64 with a tangent; exists inside jvp and nowhere else.
/// tracked64: dual64 with what the gradient checks measure; exists inside check/ and nowhere else.
enum class DType : std::uint8_t { float32, float64, int64, bool8, dual64, tracked64 };
using enum DType;

std::string_view dtype_name(DType dtype);
/// Bytes of one element.
std::int64_t element_size(DType dtype);
/// True for dual64 and tracked64, whose elements carry a tangent.
constexpr bool is_dual(DType d) { return d == dual64 || d == tracked64; }
/// True for float32, float64, dual64 and tracked64.
constexpr bool is_floating(DType d) { return d == float32 || d == float64 || is_dual(d); }
void append_text(std::string& out, DType dtype);
std::ostream& operator<<(std::ostream& out, DType dtype);

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
struct DTypeOf<Dual> : std::integral_constant<DType, dual64> {};
template <>
struct DTypeOf<Tracked> : std::integral_constant<DType, tracked64> {};
template <class T>
inline constexpr DType kDTypeOf = DTypeOf<T>::value;
/// Types that elements can have: float, double, std::int64_t, bool, Dual and Tracked.
template <class T>
concept Element = requires {
  DTypeOf<T>::value;
};

/// `value` as a T, fractions of an int64 cut off. ValueError naming op and value where int64 cannot
/// hold it: the plain cast is undefined there.
template <class T>
T checked_cast(std::string_view op, double value) {
  if constexpr (kDTypeOf<T> == int64)
    check<ValueError>(value >= -0x1p63 && value < 0x1p63, op, value,
                      " is outside the range of int64");
  return T(value);
}

/// Calls f.template operator()<T>() with T = float, double, Dual or Tracked; DTypeError for the
/// rest.
template <class F>
decltype(auto) dispatch_floating(DType dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case float32:
      return f.template operator()<float>();
    case float64:
      return f.template operator()<double>();
    case dual64:
      return f.template operator()<Dual>();
    case tracked64:
      return f.template operator()<Tracked>();
    default:
      fail<DTypeError>(op, "needs float32 or float64, got ", dtype);
  }
}

/// Calls f as dispatch_floating does, and for int64.
template <class F>
decltype(auto) dispatch_numeric(DType dtype, std::string_view op, F&& f) {
  if (dtype == int64) return f.template operator()<std::int64_t>();
  check<DTypeError>(dtype != bool8, op, "needs float32, float64 or int64, got bool8");
  return dispatch_floating(dtype, op, f);
}

/// Calls f as dispatch_floating does, for every dtype.
template <class F>
decltype(auto) dispatch_any(DType dtype, F&& f) {
  if (dtype == bool8) return f.template operator()<bool>();
  return dispatch_numeric(dtype, "dtype", f);
}

}  // namespace heed::autograd
