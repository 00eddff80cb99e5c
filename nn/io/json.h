// JSON values, for the headers of safetensors files and for the output of heed.
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
#include "nn/io/limits.h"

namespace heed::nn {

/// Error in a JSON text or in the type of a value. The text is a predicate without a subject, such
/// as `contains a zero byte`, so that the caller can put a subject before it.
struct JsonError : autograd::ValueError {
  using ValueError::ValueError;
};

/// JSON value: null, a bool, an integer, a double, a string, an array or an object. An object keeps
/// the order of its entries.
class Json {
 public:
  using Array = std::vector<Json>;  ///< JSON array
  /// JSON object, in the order of its entries.
  using Object = std::vector<std::pair<std::string, Json>>;
  /// Limits of parse().
  struct Limits {
    int depth;   ///< largest number of nested arrays and objects
    int length;  ///< largest number of values in one array
  };

  ///@{
  /// Makes a JSON value from a C++ value. An integer is stored as std::uint64_t, or as std::int64_t
  /// if it is negative. An empty optional becomes null.
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
  template <class T>
  Json(const std::optional<T>& value) : Json(value ? Json(*value) : Json()) {}
  ///@}

  ///@{
  /// Copies or moves a value. These functions are defined in json.cpp, because the copy constructor
  /// of std::variant has a bug in libstdc++ 12.
  Json(const Json&);
  Json(Json&&) noexcept;
  Json& operator=(const Json&);
  Json& operator=(Json&&) noexcept;
  ///@}
  ~Json();

  /// Returns an empty array.
  static Json array() { return Array(); }
  /// Returns an object with these entries.
  static Json object(std::initializer_list<Object::value_type> entries = {});
  /// Returns true if type and value are equal.
  bool operator==(const Json&) const = default;

  /// Appends a value to an array. Throws JsonError if this is not an array.
  void push_back(Json value) { get<Array>().push_back(std::move(value)); }
  /// Appends an entry to an object. The object must not contain the key yet. Throws JsonError if
  /// this is not an object.
  void append(std::string key, Json value);
  /// Returns the value of this key. If the object does not contain the key, appends it with the
  /// value null. Takes time proportional to the number of entries. Throws JsonError if this is not
  /// an object.
  Json& operator[](std::string_view key);
  /// Adds the entries of `other` to this object. They replace entries with the same keys. Throws
  /// JsonError if this value or `other` is not an object.
  void update(const Json& other);

  /// Returns a pointer to the C++ value if its type is T, and nullptr otherwise. T is bool,
  /// std::uint64_t (integers >= 0), std::int64_t (negative integers), double, std::string, Array or
  /// Object.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&value_);
  }
  ///@{
  /// Returns the value of an array, object, string or double. Throws JsonError if this value has
  /// another type.
  const Array& items() const { return get<Array>(); }
  const Object& entries() const { return get<Object>(); }
  const std::string& text() const { return get<std::string>(); }
  double number() const { return get<double>(); }
  ///@}
  /// Returns a pointer to the value of this key. Returns nullptr if this value is not an object or
  /// does not contain the key.
  const Json* find(std::string_view key) const;
  /// Calls f(value) with the C++ value and returns its result.
  template <class F>
  auto visit(F f) const {
    return std::visit(f, value_);
  }

  /// Returns the value as JSON text on one line. A finite double is written as the shortest text
  /// that reads back to the same double. A non-finite double is written as null. Invalid UTF-8 is
  /// replaced by U+FFFD. If `ascii` is true, non-ASCII characters are written as `\uXXXX`.
  std::string dump(bool ascii = false) const;
  /// Parses a JSON text. Throws JsonError if `text` is not JSON in UTF-8 (the error text contains
  /// the position of the error), if it contains a zero byte, a duplicate key or a number out of
  /// range, or if it exceeds the limits.
  static Json parse(std::string_view text, const Limits& limits = {kMaxJsonDepth, INT32_MAX});

 private:
  template <class T>
  const T& get() const {
    if (const T* value = as<T>()) return *value;
    throw JsonError("contains a value of another type than required");
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
