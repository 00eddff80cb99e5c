// JSON values, for the headers of safetensors files and for what the program prints.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/base/error.h"

namespace heed::nn {

/// What is wrong with a text, fit to follow a noun: "names "x" twice".
struct JsonError : autograd::ValueError {
  using ValueError::ValueError;
};

/// null, a bool, an integer, a number, a text, an array, or an object that keeps its order.
class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;
  struct Limits {
    int depth, length;  ///< levels of nesting; values of one array
  };

  Json(std::nullptr_t = nullptr) {}
  Json(bool value) : value_(value) {}
  template <std::integral T>
  Json(T value) : value_(std::uint64_t(value)) {
    if (std::cmp_less(value, 0)) value_ = std::int64_t(value);
  }
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : Json(std::string(value)) {}
  Json(const char* value) : Json(std::string(value)) {}
  Json(Array values) : value_(std::move(values)) {}
  Json(Object entries) : value_(std::move(entries)) {}
  template <class T>
  Json(const std::vector<T>& values) : value_(Array(values.begin(), values.end())) {}
  template <class T>
  Json(const std::map<std::string, T>& values) : value_(Object(values.begin(), values.end())) {}
  /// null if there is no value.
  template <class T>
  Json(const std::optional<T>& value) : Json(value ? Json(*value) : Json()) {}

  // In json.cpp, which says why a copy is not the variant's own.
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ~Json();

  static Json array() { return Array(); }
  static Json object(std::initializer_list<Object::value_type> entries = {});
  bool operator==(const Json&) const = default;

  void push_back(Json value) { get<Array>().push_back(std::move(value)); }
  /// Adds an entry to an object that has none of this key.
  void append(std::string key, Json value);
  /// The entry of this key, added as null if there is none. Compares with every key.
  Json& operator[](std::string_view key);
  /// Adds the entries of another object, which replace those of the same key.
  void update(const Json& other);

  /// The value if it is a bool, std::uint64_t (any integer >= 0), std::int64_t (one < 0), double,
  /// std::string, Array or Object; else null.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&value_);
  }
  // JsonError if the value is of another type.
  const Array& items() const { return get<Array>(); }
  const Object& entries() const { return get<Object>(); }
  const std::string& text() const { return get<std::string>(); }
  double number() const { return get<double>(); }
  /// The entry of an object, or null, also of anything else.
  const Json* find(std::string_view key) const;
  /// Calls f with the value.
  template <class F>
  auto visit(F f) const {
    return std::visit(f, value_);
  }

  /// On one line; doubles with as many digits as they need, null where they are not finite, U+FFFD
  /// for what is not UTF-8. `ascii`: other characters as \uXXXX.
  std::string dump(bool ascii = false) const;
  /// JsonError with the byte for what is not JSON in UTF-8, for a zero byte, a key that an object
  /// has twice, a number out of range, and what goes beyond the limits.
  static Json parse(std::string_view text, const Limits& limits = {64, INT32_MAX});

 private:
  template <class T>
  const T& get() const {
    if (const T* value = as<T>()) return *value;
    throw JsonError("is not of the type that is needed there");
  }
  template <class T>
  T& get() {
    return const_cast<T&>(std::as_const(*this).get<T>());
  }

  std::variant<std::nullptr_t, bool, std::uint64_t, std::int64_t, double, std::string, Array,
               Object>
      value_;
};

}  // namespace heed::nn
