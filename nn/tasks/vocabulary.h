// The symbols of a model's tokens. With its vocabulary a checkpoint can read a prompt and print the
// tokens that it generates, even if the text that it was trained on no longer exists.
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

/// Unit of text of one token. A word is a run of characters other than white space. If a space
/// precedes it, this one space belongs to the word. Every other white-space character is a separate
/// token, so that the symbols of a text, concatenated, equal the text.
enum class Unit {
  kChar,  ///< a code point
  kWord   ///< a word or a white-space character
};
/// Names of Unit: char, word.
template <>
struct EnumNames<Unit> {
  static constexpr std::pair<Unit, const char*> kTable[] = {{Unit::kChar, "char"},
                                                            {Unit::kWord, "word"}};
};

/// Map between token ids and symbols. A symbol is one code point or, with Unit::kWord, one word.
class Vocabulary {
 public:
  /// Constructs an empty vocabulary.
  Vocabulary() = default;
  /// Constructs a vocabulary in which symbols[id] is the UTF-8 text of token id. Throws ValueError
  /// unless all symbols are different, and each is one code point (kChar) or at least one (kWord).
  explicit Vocabulary(std::vector<std::string> symbols, Unit unit = Unit::kChar);

  /// Returns a vocabulary in which each code point of `symbols` is one token, in this order. Throws
  /// ValueError unless `symbols` is valid UTF-8 and all code points are different.
  static Vocabulary of(std::string_view symbols);

  /// Returns the number of tokens.
  std::int64_t size() const { return std::int64_t(symbols_.size()); }
  /// Returns the unit of text of one token.
  Unit unit() const { return unit_; }
  /// Returns the symbols in the order of their ids.
  const std::vector<std::string>& symbols() const { return symbols_; }
  /// Returns the id of a symbol, or nullopt if it is not in the vocabulary.
  std::optional<std::int64_t> find(const std::string& symbol) const;
  /// Returns whether both have the same symbols in the same order. Does not compare the units.
  bool operator==(const Vocabulary& other) const { return symbols_ == other.symbols_; }

  /// Returns the token ids of a UTF-8 text. Throws ValueError for a unit of the text that is not in
  /// the vocabulary and for invalid UTF-8. The message begins with `what` and contains the first
  /// such unit, or the offset of the first invalid byte.
  std::vector<std::int64_t> encode(std::string_view text, std::string_view what = "encode") const;
  /// Returns the text of token ids. Throws ValueError for an id outside [0, size()).
  std::string decode(std::span<const std::int64_t> ids) const;
  /// Returns the symbol of one id as an axis label: `\n` for a newline. Throws ValueError for an id
  /// outside [0, size()).
  std::string label(std::int64_t id) const;
  /// Returns the labels of token ids, in the same order. Throws like label().
  std::vector<std::string> labels(std::span<const std::int64_t> ids) const;
  /// Returns a short list of the symbols: "a-z A-F ^". A long list is cut after about 200 bytes.
  std::string summary() const;

 private:
  std::string summary_of_words() const;
  std::string advice(const std::string& word) const;

  std::vector<std::string> symbols_;
  Unit unit_ = Unit::kChar;
  std::unordered_map<std::string, std::int64_t> ids_;
};

}  // namespace heed::nn
