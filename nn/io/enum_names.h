// Conversion between the values of an enum and their names.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/io/names.h"

namespace heed::nn {

/// Names of the values of an enum in settings, config.toml and errors. Next to the definition of
/// each enum, whose values are 0, 1, 2 and so on, is a specialization with the names in this order:
///
///     template <>
///     inline constexpr auto kEnumNames<E> = std::to_array({"first", "second"});
template <class E>
inline constexpr int kEnumNames = 0;
template <>
inline constexpr auto kEnumNames<DType> = std::to_array({"float32", "float64"});  // of a model

/// Returns the names of all values, in their order.
template <class E>
std::vector<std::string> enum_names() {
  return {kEnumNames<E>.begin(), kEnumNames<E>.end()};
}

/// Returns the value with this name, or nullopt if no value has it.
template <class E>
std::optional<E> enum_value(std::string_view name) {
  for (std::size_t i = 0; i < kEnumNames<E>.size(); ++i)
    if (kEnumNames<E>[i] == name) return E(i);
  return {};
}

/// Returns the name of a value.
template <class E>
std::string enum_name(E value) {
  return kEnumNames<E>.at(std::size_t(value));
}

}  // namespace heed::nn
