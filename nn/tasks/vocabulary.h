// Which character or word spells which token. Everything a checkpoint needs to read a prompt and to
// print what it generates, also when the text it was trained on is gone.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nn/io/enum_names.h"

namespace heed::nn {

/// Unit of text of one token. A word is a run of characters other than white space, with the single
/// space before it if there is one; every other white-space character is a token of its own. So the
/// symbols of a text, one after the other, are the text.
enum class Unit { kChar, kWord };
template <>
struct EnumNames<Unit> {
  static constexpr std::pair<Unit, const char*> kTable[] = {{Unit::kChar, "char"},
                                                            {Unit::kWord, "word"}};
};

/// Token id <-> one code point, or one word.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// symbols[id] spells token id, in UTF-8. ValueError unless each is another, and one code point
  /// or, with kWord, at least one.
  explicit Vocabulary(std::vector<std::string> symbols, Unit unit = Unit::kChar);

  /// Each code point of `symbols` spells one token, in this order. ValueError likewise.
  static Vocabulary of(std::string_view symbols);

  std::int64_t size() const { return std::int64_t(symbols_.size()); }
  Unit unit() const { return unit_; }
  const std::vector<std::string>& symbols() const { return symbols_; }
  /// The id of one symbol, or nothing.
  std::optional<std::int64_t> find(const std::string& symbol) const;
  bool operator==(const Vocabulary& other) const { return symbols_ == other.symbols_; }

  /// Returns the ids of a UTF-8 text. ValueError, which begins with `what`, naming the first unit
  /// that is not a symbol or the offset of the first invalid byte.
  std::vector<std::int64_t> encode(std::string_view text, std::string_view what = "encode") const;
  /// The text of some ids. ValueError on an id outside [0, size()).
  std::string decode(std::span<const std::int64_t> ids) const;
  /// The symbol of one id as an axis label: \n for a newline.
  std::string label(std::int64_t id) const;
  /// The labels of some ids, in their order.
  std::vector<std::string> labels(std::span<const std::int64_t> ids) const;
  /// All symbols in short: "a-z A-F ^". Of words the first ones.
  std::string summary() const;

 private:
  std::string summary_of_words() const;
  std::string advice(const std::string& word) const;

  std::vector<std::string> symbols_;
  Unit unit_ = Unit::kChar;
  std::unordered_map<std::string, std::int64_t> ids_;
};

}  // namespace heed::nn
