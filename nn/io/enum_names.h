// Names of an enum's values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/io/names.h"

namespace heed::nn {

/// The values of an enum and their names in settings, config.toml and errors. A specialization
/// stands beside the enum:
///   static constexpr std::pair<E, const char*> kTable[] = {...};
template <class E>
struct EnumNames;

template <class E>
std::vector<std::string> enum_names() {
  std::vector<std::string> names;
  for (const auto& [value, name] : EnumNames<E>::kTable) names.emplace_back(name);
  return names;
}

template <class E>
std::optional<E> enum_value(std::string_view name) {
  for (const auto& [value, known] : EnumNames<E>::kTable)
    if (known == name) return value;
  return {};
}

template <class E>
std::string enum_name(E value) {
  for (const auto& [known, name] : EnumNames<E>::kTable)
    if (known == value) return name;
  return "";
}

template <>
struct EnumNames<DType> {  // those that a model can have
  static constexpr std::pair<DType, const char*> kTable[] = {{float32, "float32"},
                                                             {float64, "float64"}};
};
template <>
struct EnumNames<Precision> {
  static constexpr std::pair<Precision, const char*> kTable[] = {
      {Precision::kFloat32, "float32"}, {Precision::kBfloat16, "bfloat16"}};
};

}  // namespace heed::nn
