// A text file as tokens: what the tasks text and lines learn from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nn/tasks/tasks.h"

namespace heed::nn {

/// Token ids below 65,536: a byte each where the vocabulary has at most 256, else two.
class TokenArray {
 public:
  explicit TokenArray(std::int64_t vocabulary = 0) : wide_(vocabulary > 256) {}

  void reserve(std::size_t n) { wide_ ? two_.reserve(n) : one_.reserve(n); }
  void push_back(std::int64_t id) {
    wide_ ? two_.push_back(std::uint16_t(id)) : one_.push_back(std::uint8_t(id));
  }
  std::int64_t operator[](std::size_t i) const { return wide_ ? two_[i] : one_[i]; }
  std::size_t size() const { return wide_ ? two_.size() : one_.size(); }

 private:
  bool wide_;
  std::vector<std::uint8_t> one_;
  std::vector<std::uint16_t> two_;
};

struct Corpus {
  TokenArray tokens;
  /// Characters in the order of their code points; words from the most frequent to the rarest, and
  /// kUnknown last if some are left out. With TextOptions::by_line, "\n" is token 0.
  Vocabulary vocabulary;
  std::map<std::string, std::string> data;  ///< TaskInfo::data
  std::int64_t unknown = 0;                 ///< tokens that are kUnknown
};

/// The symbol of all words that max_words leaves out.
inline constexpr const char* kUnknown = "<unk>";

/// Reads a file piece by piece, so that no more of it is in memory than its tokens. With
/// TextOptions::by_line carriage returns are dropped. IoError naming path and reason.
Corpus read_corpus(const TextOptions& options);

/// The vocabulary that TaskInfo::data keeps. IoError if there is none.
Vocabulary vocabulary_of(const std::map<std::string, std::string>& data, Unit unit);

}  // namespace heed::nn
