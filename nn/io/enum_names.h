// Conversion between the values of an enum and their names.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/io/names.h"

namespace heed::nn {

/// Table of the values of an enum and their names in settings, config.toml and errors. Next to the
/// definition of each enum is a specialization with one member:
///
///     static constexpr std::pair<E, const char*> kTable[] = {...};
template <class E>
struct EnumNames;

/// Returns the names of all values, in the order of the table.
template <class E>
std::vector<std::string> enum_names() {
  std::vector<std::string> names;
  for (const auto& [value, name] : EnumNames<E>::kTable) names.emplace_back(name);
  return names;
}

/// Returns the value with this name, or nullopt if no value has it.
template <class E>
std::optional<E> enum_value(std::string_view name) {
  for (const auto& [value, known] : EnumNames<E>::kTable)
    if (known == name) return value;
  return {};
}

/// Returns the name of a value, or "" if the table does not contain it.
template <class E>
std::string enum_name(E value) {
  for (const auto& [known, name] : EnumNames<E>::kTable)
    if (known == value) return name;
  return "";
}

template <>
struct EnumNames<DType> {  // only the dtypes that a model can have
  static constexpr std::pair<DType, const char*> kTable[] = {{float32, "float32"},
                                                             {float64, "float64"}};
};

}  // namespace heed::nn
