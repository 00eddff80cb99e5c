// JSON values, parsed and written with nlohmann/json.hpp. Only this file includes it, because its
// templates take seconds to compile.
//
// ordered_json is used for writing only. It is not used for parsing for three reasons. It compares
// each key of an object with all earlier keys: a header of 100,000 tensors takes 27 s, but 0.2 s
// with Builder. It accepts duplicate keys and keeps the last one. It has no limits.
#include "nn/io/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace heed::nn {

namespace {

using nlohmann::ordered_json;

ordered_json converted(const Json& value) {
  return value.visit([]<class T>(const T& x) -> ordered_json {
    if constexpr (std::same_as<T, Json::Array>) {
      ordered_json list = ordered_json::array();
      for (const Json& item : x) list.push_back(converted(item));
      return list;
    } else if constexpr (std::same_as<T, Json::Object>) {
      ordered_json::object_t object;
      for (const auto& [key, item] : x)  // Container is std::vector, so keys are not compared
        object.Container::emplace_back(key, converted(item));
      return object;
    } else {
      return x;
    }
  });
}

// Builds a Json value from the events of the parser.
class Builder : public nlohmann::json_sax<ordered_json> {
 public:
  explicit Builder(const Json::Limits& limits) : limits_(limits) {}
  Json result;

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(value); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& value) override {
    if (!levels_.back().keys.insert(value).second)
      throw JsonError("contains the key " + Json(value.substr(0, 80)).dump(true) + " twice");
    levels_.back().key = value;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override {
    constexpr int kOutOfRange = 406;
    throw JsonError(error.id == kOutOfRange
                        ? "has a number out of the range of float64"
                        : "is not JSON in UTF-8 (error at byte " + std::to_string(byte) + ")");
  }

 private:
  struct Level {
    Json value;
    std::string key;  // key of the entry whose value comes next
    std::set<std::string> keys;
  };

  bool add(Json value) {
    Json& into = levels_.empty() ? result : levels_.back().value;
    if (into.as<Json::Object>())
      into.append(levels_.back().key, std::move(value));
    else if (!into.as<Json::Array>())
      into = std::move(value);
    else if (into.push_back(std::move(value)); std::ssize(into.items()) > limits_.length)
      throw JsonError("has a list of more than " + std::to_string(limits_.length) + " values");
    return true;
  }
  bool open(Json value) {
    if (std::ssize(levels_) == limits_.depth)
      throw JsonError("is nested more than " + std::to_string(limits_.depth) + " levels deep");
    levels_.push_back({std::move(value), {}, {}});
    return true;
  }
  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return add(std::move(value));
  }

  Json::Limits limits_;
  std::vector<Level> levels_;
};

}  // namespace

// The copy is made outside of the variant and then moved into it. In libstdc++ 12, if the copy
// constructor of a variant throws and its types have noexcept moves, the variant destroys a value
// that was never constructed.
Json::Json(const Json& other) {
  other.visit([this](const auto& x) {
    auto copy = x;
    value_ = std::move(copy);
  });
}
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json& other) { return *this = Json(other); }
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

Json Json::object(std::initializer_list<Object::value_type> entries) { return Object(entries); }

void Json::append(std::string key, Json value) {
  get<Object>().emplace_back(std::move(key), std::move(value));
}

Json& Json::operator[](std::string_view key) {
  if (!find(key)) append(std::string(key), {});
  return const_cast<Json&>(*find(key));
}

const Json* Json::find(std::string_view key) const {
  if (!as<Object>()) return nullptr;
  const auto found = std::find_if(entries().begin(), entries().end(),
                                  [&](const auto& entry) { return entry.first == key; });
  return found == entries().end() ? nullptr : &found->second;
}

void Json::update(const Json& other) {
  for (const auto& [key, value] : other.entries()) (*this)[key] = value;
}

std::string Json::dump(bool ascii) const {
  return converted(*this).dump(-1, ' ', ascii, ordered_json::error_handler_t::replace);
}

Json Json::parse(std::string_view text, const Limits& limits) {
  if (text.find('\0') != text.npos)  // the parser would treat this byte as the end of the text
    throw JsonError("contains a zero byte");
  Builder builder(limits);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.result;
}

}  // namespace heed::nn
