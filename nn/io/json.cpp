// The one file that includes nlohmann/json.hpp, whose templates take seconds to compile.
#include "nn/io/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace heed::nn {

namespace {

// What is neither array nor object.
nlohmann::json leaf(const Json& value) {
  switch (value.kind()) {
    case Json::Kind::kBool:
      return value.integer() != 0;
    case Json::Kind::kInteger:
      return value.integer();
    case Json::Kind::kUnsigned:
      return value.count();
    case Json::Kind::kNumber:
      return value.number();
    case Json::Kind::kText:
      return value.text();
    default:
      return nullptr;
  }
}

void write(const Json& value, bool ascii, std::string& out) {
  const bool object = value.kind() == Json::Kind::kObject;
  const auto write_leaf = [&](const Json& x) {
    out += leaf(x).dump(-1, ' ', ascii, nlohmann::json::error_handler_t::replace);
  };
  if (!object && value.kind() != Json::Kind::kArray) return write_leaf(value);
  out += object ? '{' : '[';
  for (std::size_t i = 0; i < value.items().size(); ++i) {
    if (i > 0) out += ',';
    if (object) write_leaf(value.keys()[i]);
    if (object) out += ':';
    write(value.items()[i], ascii, out);
  }
  out += object ? '}' : ']';
}

// Builds a value from the parser's events.
class Builder : public nlohmann::json_sax<nlohmann::json> {
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
      throw JsonError("names " + Json(value.substr(0, 80)).dump(true) + " twice");
    levels_.back().key = value;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override {
    constexpr int kOutOfRange = 406;
    throw JsonError(error.id == kOutOfRange
                        ? "has a number out of range"
                        : "is not JSON in UTF-8 (byte " + std::to_string(byte) + " of it)");
  }

 private:
  struct Level {
    Json value;
    std::string key;  // of the entry that is to come
    std::set<std::string> keys;
  };

  bool add(Json value) {
    if (levels_.empty()) {
      result = std::move(value);
      return true;
    }
    Level& level = levels_.back();
    if (level.value.kind() == Json::Kind::kObject)
      level.value.append(level.key, std::move(value));
    else
      level.value.push_back(std::move(value));
    if (level.value.kind() == Json::Kind::kArray &&
        std::ssize(level.value.items()) > limits_.length)
      throw JsonError("has a list of more than " + std::to_string(limits_.length) + " values");
    return true;
  }
  bool open(Json value) {
    if (std::ssize(levels_) == limits_.depth) throw JsonError("is nested too deep");
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

Json Json::object(std::initializer_list<std::pair<const char*, Json>> entries) {
  Json result(Kind::kObject);
  for (const auto& [key, value] : entries) result.append(key, value);
  return result;
}

void Json::append(const std::string& key, Json value) {
  keys_.push_back(key);
  items_.push_back(std::move(value));
}

Json& Json::operator[](const std::string& key) {
  const auto at = std::size_t(std::find(keys_.begin(), keys_.end(), key) - keys_.begin());
  if (at == keys_.size()) append(key, {});
  return items_[at];
}

const Json* Json::find(std::string_view key) const {
  const auto found = std::find(keys_.begin(), keys_.end(), key);
  return found == keys_.end() ? nullptr : &items_[std::size_t(found - keys_.begin())];
}

void Json::update(const Json& other) {
  for (std::size_t i = 0; i < other.keys_.size(); ++i) (*this)[other.keys_[i]] = other.items_[i];
}

std::string Json::dump(bool ascii) const {
  std::string out;
  write(*this, ascii, out);
  return out;
}

Json Json::parse(std::string_view text, const Limits& limits) {
  Builder builder(limits);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.result;
}

}  // namespace heed::nn
