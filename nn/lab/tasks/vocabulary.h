// The symbols of a model's tokens. A checkpoint contains its vocabulary, so that prompts can be
// read and generated tokens printed even if the training text no longer exists.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "autograd/base/utf8.h"
#include "nn/io/enum_names.h"
#include "nn/lab/names.h"

namespace heed::lab {

/// Unit of text that one token stands for. A word is a run of characters other than white space. If
/// a space precedes a word, this one space belongs to the word. Every other white-space character
/// is a separate token. So the text equals the concatenation of its symbols.
enum class Unit {
  kChar,  ///< a code point
  kWord   ///< a word or a white-space character
};
/// Names of the units in configurations.

/// Splits a text into units (see Unit). Words are separated only by the white space of C's
/// isspace(): the space and the characters 9 to 13.
class UnitSplitter {
 public:
  /// Creates a splitter of one text.
  explicit UnitSplitter(Unit unit) : unit_(unit) {}

  /// Takes the next code point, and calls emit(unit) for each unit that is complete.
  template <class F>
  void put(char32_t c, const F& emit) {
    const bool space = c == U' ' || (c >= U'\t' && c <= U'\r');
    if (unit_ == Unit::kChar || space) end(emit);
    pending_ += autograd::to_utf8(c);
    if (unit_ == Unit::kChar || (space && c != U' ')) end(emit);
  }
  /// Calls emit(unit) for the last unit. Call this after the last code point.
  template <class F>
  void end(const F& emit) {
    if (!pending_.empty()) emit(pending_);
    pending_.clear();
  }

 private:
  Unit unit_;
  std::string pending_;  // code points of the unit that is not complete yet, as UTF-8
};

/// Map between token ids and symbols. A symbol is one code point or, with Unit::kWord, one word.
class Vocabulary {
 public:
  /// Constructs an empty vocabulary.
  Vocabulary() = default;
  /// Constructs a vocabulary in which symbols[id] is the UTF-8 text of token id. Throws ValueError
  /// unless all symbols are distinct and each symbol is one code point (kChar) or one or more code
  /// points (kWord).
  explicit Vocabulary(std::vector<std::string> symbols, Unit unit = Unit::kChar);

  /// Returns a vocabulary in which each code point of `symbols` is one token, in this order. Throws
  /// ValueError unless `symbols` is valid UTF-8 and all code points are distinct.
  static Vocabulary of(std::string_view symbols);
  /// Returns the first n letters of a-z A-Z, n <= 52, and then `special` (BOS or a separator), if
  /// it is not empty.
  static Vocabulary letters(Index n, const std::string& special);

  /// Returns the number of tokens.
  Index size() const { return Index(symbols_.size()); }
  /// Returns the unit of text that one token stands for.
  Unit unit() const { return unit_; }
  /// Returns the symbols in the order of their ids.
  const std::vector<std::string>& symbols() const { return symbols_; }
  /// Returns the id of a symbol, or no value if the symbol is not in the vocabulary.
  std::optional<Index> find(const std::string& symbol) const;
  /// Returns true if the two vocabularies have equal symbols in equal order. Does not compare
  /// units.
  bool operator==(const Vocabulary& other) const { return symbols_ == other.symbols_; }

  /// Returns the token ids of a UTF-8 text. Throws ValueError if a character or word of the text is
  /// not in the vocabulary, or if the text is not valid UTF-8. The message begins with `what`. It
  /// contains the unknown character or word, or the offset of the invalid byte.
  std::vector<Index> encode(std::string_view text, std::string_view what = "encode") const;
  /// Returns the vocabulary of the first n symbols.
  Vocabulary first(Index n) const {
    return Vocabulary({symbols_.begin(), symbols_.begin() + n}, unit_);
  }
  /// Returns the text that the token ids stand for. Throws ValueError if an id is negative or not
  /// below size().
  std::string decode(std::span<const Index> ids) const;
  /// Returns the symbol of one id as an axis label, with escapes such as `\n` for a newline. Throws
  /// ValueError if the id is negative or not below size().
  std::string label(Index id) const;
  /// Returns label(id) of each of the ids, in their order. Throws the errors of label().
  std::vector<std::string> labels(std::span<const Index> ids) const;
  /// Returns a short list of the symbols, such as "a-z A-F ^". A longer list ends after about 200
  /// bytes.
  std::string summary() const;

 private:
  std::string summary_of_words() const;
  std::string advice(const std::string& word) const;

  std::vector<std::string> symbols_;
  Unit unit_ = Unit::kChar;
  std::unordered_map<std::string, Index> ids_;
};

}  // namespace heed::lab

template <>
inline constexpr auto heed::nn::kEnumNames<heed::lab::Unit> = std::to_array({"char", "word"});
