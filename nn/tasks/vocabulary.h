// Which character spells which token. Everything a checkpoint needs to read a prompt and to print
// what it generates, also when the text it was trained on is gone.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace heed::nn {

/// Token id <-> one code point.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// symbols[id] spells token id, in UTF-8. ValueError unless each is one code point, each another.
  explicit Vocabulary(std::vector<std::string> symbols);

  /// Each code point of `symbols` spells one token, in this order. ValueError likewise.
  static Vocabulary of(std::string_view symbols);

  std::int64_t size() const { return std::int64_t(symbols_.size()); }
  const std::vector<std::string>& symbols() const { return symbols_; }
  bool contains(char32_t c) const { return ids_.contains(c); }
  bool operator==(const Vocabulary& other) const { return symbols_ == other.symbols_; }

  /// The ids of a UTF-8 text. ValueError naming the first character that is no symbol, or the
  /// offset of the first invalid byte.
  std::vector<std::int64_t> encode(std::string_view text) const;
  /// The text of some ids. ValueError on an id outside [0, size()).
  std::string decode(std::span<const std::int64_t> ids) const;
  /// The symbol of one id as an axis label: \n for a newline.
  std::string label(std::int64_t id) const;
  /// All symbols in short: "a-z A-F ^".
  std::string summary() const;

 private:
  std::vector<std::string> symbols_;
  std::vector<char32_t> code_points_;
  std::unordered_map<char32_t, std::int64_t> ids_;
};

}  // namespace heed::nn
