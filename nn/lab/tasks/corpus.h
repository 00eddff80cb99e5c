// A text file as an array of tokens and a vocabulary, for the tasks `text` and `lines`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nn/lab/tasks/tasks.h"

namespace heed::lab {

/// Array of token ids below 65,536. An id takes one byte until one above 255 is added, and then two
/// bytes.
class TokenArray {
 public:
  void reserve(std::size_t n) { one_.reserve(n); }
  void push_back(Index id) {
    if (two_.empty() && id < 256) return one_.push_back(std::uint8_t(id));
    if (two_.empty()) {
      two_.reserve(one_.capacity());
      two_.assign(one_.begin(), one_.end());
      one_ = {};
    }
    two_.push_back(std::uint16_t(id));
  }
  /// Replaces an id by another one that needs no more bytes.
  void set(std::size_t i, Index id) {
    two_.empty() ? one_[i] = std::uint8_t(id) : two_[i] = std::uint16_t(id);
  }
  Index operator[](std::size_t i) const { return two_.empty() ? one_[i] : two_[i]; }
  std::size_t size() const { return two_.empty() ? one_.size() : two_.size(); }

 private:
  std::vector<std::uint8_t> one_;
  std::vector<std::uint16_t> two_;  // used instead of one_ if it is not empty
};

/// The tokens and the vocabulary of a text file, and data that identify the file.
struct Corpus {
  TokenArray tokens;
  /// Characters are in the order of their code points. Words are in the order of decreasing
  /// frequency. If TextOptions::by_line is set, the newline is token 0.
  Vocabulary vocabulary;
  std::map<std::string, std::string> data;  ///< the value of TaskInfo::data
  std::string note = {};  ///< sentence about carriage returns that are not tokens, or ""
  bool whole = false;     ///< true: all tokens are for evaluation, as if read_corpus() got `known`
};

/// Reads a text file as tokens. The file is read in pieces, so that only its tokens are in memory.
/// Throws IoError with the path and the reason if the file cannot be used.
///
/// A byte order mark at the start is left out, a carriage return and a newline (CR LF) or a
/// carriage return alone is read as a newline, and a NUL is an error. If TextOptions::by_line is
/// set, carriage returns are left out instead.
///
/// If `known` is given, the text becomes tokens of this vocabulary, and `unit` has no effect.
/// Throws ValueError that contains the line for a character or word that is not a symbol.
Corpus read_corpus(const TextOptions& options, const Vocabulary* known = nullptr);

/// Returns a short text file, read as by read_corpus(). Throws IoError if it cannot be read or has
/// more than `limit` bytes.
std::string read_text(const std::string& path, std::uint64_t limit);

/// Returns the vocabulary that `data` (TaskInfo::data) contains as text. Throws IoError if this
/// text is missing or damaged.
Vocabulary vocabulary_of(const std::map<std::string, std::string>& data, Unit unit);

}  // namespace heed::lab
