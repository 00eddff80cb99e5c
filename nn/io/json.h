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
  enum class Kind { kNull, kBool, kInteger, kUnsigned, kNumber, kText, kArray, kObject };
  struct Limits {
    int depth, length;  ///< levels of nesting; values of one array
  };

  Json(std::nullptr_t = nullptr) {}
  Json(bool value) : kind_(Kind::kBool), integer_(value) {}
  template <std::integral T>
  Json(T value)
      : kind_(std::signed_integral<T> ? Kind::kInteger : Kind::kUnsigned),
        integer_(std::int64_t(value)) {}
  Json(double value) : kind_(Kind::kNumber), number_(value) {}
  Json(std::string value) : kind_(Kind::kText), text_(std::move(value)) {}
  Json(std::string_view value) : Json(std::string(value)) {}
  Json(const char* value) : Json(std::string(value)) {}
  template <class T>
  Json(const std::vector<T>& values) : Json(array()) {
    for (const T& value : values) push_back(value);
  }
  template <class T>
  Json(const std::map<std::string, T>& values) : Json(object()) {
    for (const auto& [key, value] : values) (*this)[key] = value;
  }
  /// null if there is no value.
  template <class T>
  Json(const std::optional<T>& value) : Json(value ? Json(*value) : Json()) {}

  static Json array() { return Json(Kind::kArray); }
  static Json object(std::initializer_list<std::pair<const char*, Json>> entries = {});

  void push_back(Json value) { items_.push_back(std::move(value)); }
  /// Adds an entry to an object that has none of this key.
  void append(const std::string& key, Json value);
  /// The entry of this key, added as null if there is none. Looks at every key.
  Json& operator[](const std::string& key);
  /// Adds the entries of another object, which replace those of the same key.
  void update(const Json& other);

  Kind kind() const { return kind_; }
  /// Elements or entries.
  const std::vector<Json>& items() const { return items_; }
  const std::vector<std::string>& keys() const { return keys_; }  ///< of the items of an object
  const std::string& text() const { return text_; }
  std::int64_t integer() const { return integer_; }  ///< or bool
  double number() const { return number_; }
  /// The entry of an object, or null.
  const Json* find(std::string_view key) const;
  bool is_count() const {
    return kind_ == Kind::kUnsigned || (kind_ == Kind::kInteger && integer_ >= 0);
  }
  std::uint64_t count() const { return std::uint64_t(integer_); }

  /// On one line; doubles with as many digits as they need, null where they are not finite, U+FFFD
  /// for what is not UTF-8. `ascii`: other characters as \uXXXX.
  std::string dump(bool ascii = false) const;
  /// JsonError with the byte for what is not JSON in UTF-8, for a key that an object has twice, a
  /// number out of range, and what goes beyond the limits.
  static Json parse(std::string_view text, const Limits& limits = {64, INT32_MAX});

 private:
  explicit Json(Kind kind) : kind_(kind) {}

  Kind kind_ = Kind::kNull;
  std::int64_t integer_ = 0;
  double number_ = 0;
  std::string text_;
  std::vector<Json> items_;
  std::vector<std::string> keys_;
};

}  // namespace heed::nn
