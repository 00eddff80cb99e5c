// The reader of text files. It reads a file up to three times, piece by piece: once for the hash,
// once for the symbols unless these are known, and once for the tokens.
#include "nn/tasks/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "autograd/base/utf8.h"
#include "nn/io/json.h"
#include "nn/io/limits.h"

namespace heed::nn {

using namespace autograd;

namespace {

constexpr std::size_t kPiece = 1 << 20;  // bytes
constexpr std::size_t kCodePoints = 0x110000;

template <class F>
void for_each_piece(const InputFile& file, const F& f) {
  std::string piece;
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) {
    piece.resize(std::size_t(std::min<std::uint64_t>(kPiece, file.size() - at)));
    file.read(at, std::as_writable_bytes(std::span(piece)));
    f(piece);
  }
}

// Returns the 64-bit FNV-1a hash (Fowler, Noll, Vo) of the file, as 16 hexadecimal digits.
std::string fnv1a(const InputFile& file) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for_each_piece(file, [&](const std::string& piece) {
    for (const char c : piece) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  });
  return fmt::format("{:016x}", hash);
}

// A text file and the rules by which it is read.
struct Text {
  explicit Text(const std::string& path, bool lines = false) : file(path), by_line(lines) {}

  InputFile file;
  bool by_line;
  bool has_returns = false;  // carriage returns were left out
};

// Calls f(code point) for each code point of the text.
template <class F>
void for_each_code_point(Text& text, const F& f) {
  const InputFile& file = text.file;
  std::string rest;  // bytes that were read but not decoded
  std::uint64_t read = 0;
  char32_t last = 0;
  for_each_piece(file, [&](const std::string& piece) {
    rest += piece;
    read += piece.size();
    constexpr std::size_t kLongest = 4;  // largest number of bytes of a code point
    std::size_t at = 0;
    while (at < rest.size() && (read == file.size() || rest.size() - at >= kLongest)) {
      const std::uint64_t start = read - rest.size() + at;
      const auto byte = std::uint8_t(rest[at]);
      const auto c = next_code_point(rest, at);
      check<IoError>(c && *c != U'\0', "text", "'", file.path(), "' is not UTF-8 text at byte ",
                     start, " (value ", int{byte}, "); convert it to UTF-8");
      const bool is_return = *c == U'\r';
      const bool is_mark = *c == U'\uFEFF' && start == 0;
      // A carriage return is a newline, except in lines, and the newline after it is left out.
      const bool is_second = *c == U'\n' && last == U'\r' && !text.by_line;
      text.has_returns |= is_return;
      if (is_return && !text.by_line)
        f(U'\n');
      else if (!is_return && !is_mark && !is_second)
        f(*c);
      last = is_return ? *c : 0;
    }
    rest.erase(0, at);
  });
}

template <class F>
void for_each_unit(Text& text, Unit unit, const F& f) {
  UnitSplitter splitter(unit);
  for_each_code_point(text, [&](char32_t c) { splitter.put(c, f); });
  splitter.end(f);
}

void check_unchanged(bool unchanged, const InputFile& file) {
  check<IoError>(unchanged, "text", "'", file.path(),
                 "' was changed while heed read it; try again");
}

// Appends the file as tokens of corpus.vocabulary. If the vocabulary was made from an earlier
// reading of this file, `length` is the number of units in that reading.
void read_known(Corpus& corpus, Text& text, std::optional<std::size_t> length = {}) {
  const Vocabulary& vocabulary = corpus.vocabulary;
  std::int64_t line = 1;
  const auto add = [&](const std::string& symbol) {
    const auto found = vocabulary.find(symbol);
    if (length) check_unchanged(found && corpus.tokens.size() < *length, text.file);
    check<ValueError>(found.has_value(), "text", "'", text.file.path(), "' contains '",
                      printable(symbol), "' in line ", line,
                      ", which is not in the vocabulary: ", vocabulary.summary(),
                      "; replace or remove it in the file");
    corpus.tokens.push_back(*found);
    line += symbol == "\n";
  };
  for_each_unit(text, vocabulary.unit(), add);
}

void check_symbols(std::size_t count, const char* units, const InputFile& file) {
  check<IoError>(count <= kMaxSymbols, "text", "'", file.path(), "' has ", count, " different ",
                 units, "; use a text of at most ", kMaxSymbols);
}

void read_characters(Corpus& corpus, Text& text) {
  std::vector<bool> seen(kCodePoints);
  std::size_t length = 0;
  for_each_code_point(text, [&](char32_t c) { seen[c] = true, ++length; });
  std::vector<std::int32_t> ids(kCodePoints, -1);
  std::vector<std::string> symbols;
  const auto add = [&](char32_t c) {
    ids[c] = std::int32_t(symbols.size());
    symbols.push_back(to_utf8(c));
  };
  if (text.by_line) add(U'\n');
  for (char32_t c = 0; c < kCodePoints; ++c)
    if (seen[c] && ids[c] < 0) add(c);
  check_symbols(symbols.size(), "characters", text.file);
  corpus.tokens = TokenArray(std::int64_t(symbols.size()));
  corpus.tokens.reserve(length);
  for_each_code_point(text, [&](char32_t c) {
    check_unchanged(ids[c] >= 0 && corpus.tokens.size() < length, text.file);
    corpus.tokens.push_back(ids[c]);
  });
  for (const std::string& symbol : symbols) corpus.data["vocabulary"] += symbol;
  corpus.vocabulary = Vocabulary(std::move(symbols));
}

// Returns the words in the order of decreasing frequency. Words of equal frequency are in the order
// of their bytes.
std::vector<std::string> ranked(const std::unordered_map<std::string, std::int64_t>& counts) {
  std::vector<std::pair<std::int64_t, std::string>> words;
  for (const auto& [word, count] : counts) words.emplace_back(-count, word);
  std::sort(words.begin(), words.end());
  std::vector<std::string> symbols;
  for (auto& [count, word] : words) symbols.push_back(std::move(word));
  return symbols;
}

void read_words(Corpus& corpus, Text& text) {
  std::unordered_map<std::string, std::int64_t> counts;
  std::size_t length = 0;
  for_each_unit(text, Unit::kWord, [&](const std::string& word) { ++counts[word], ++length; });
  if (text.by_line) counts.erase("\n");
  std::vector<std::string> symbols = ranked(counts);
  if (text.by_line) symbols.insert(symbols.begin(), "\n");
  check_symbols(symbols.size(), "words", text.file);
  corpus.vocabulary = Vocabulary(symbols, Unit::kWord);
  corpus.data["vocabulary"] = Json(symbols).dump();
  corpus.tokens = TokenArray(corpus.vocabulary.size());
  corpus.tokens.reserve(length);
  read_known(corpus, text, length);
  check_unchanged(corpus.tokens.size() == length, text.file);
}

}  // namespace

Corpus read_corpus(const TextOptions& o, const Vocabulary* known) {
  Corpus corpus;
  corpus.whole = known != nullptr;
  check<IoError>(!is_file(o.path) || std::filesystem::is_regular_file(o.path), "text", "'", o.path,
                 "' is a pipe or a device, but evaluating or resuming a run reads the text again: "
                 "write the text to a file and use the file");
  Text text(o.path, o.by_line);
  const InputFile& file = text.file;
  check<IoError>(file.size() > 0, "text", "'", o.path, "' is empty; use another file");
  check<IoError>(file.size() <= kMaxTextBytes, "text", "'", o.path, "' has ", file.size(),
                 " bytes; the limit is ", kMaxTextBytes, " (1 GiB): use a part of it");
  corpus.data["text_size"] = std::to_string(file.size());
  corpus.data["text_hash"] = fnv1a(file);
  if (known) {
    corpus.vocabulary = *known, corpus.tokens = TokenArray(known->size());
    read_known(corpus, text);
  } else if (o.unit == Unit::kChar) {
    read_characters(corpus, text);
  } else {
    read_words(corpus, text);
  }
  if (text.has_returns)
    corpus.note = o.path + (o.by_line ? ": carriage returns are left out"
                                      : ": line ends CR LF and CR are read as LF");
  return corpus;
}

std::string read_text(const std::string& path, std::uint64_t limit) {
  Text text(path);
  check<IoError>(text.file.size() <= limit, "text", "'", path, "' has ", text.file.size(),
                 " bytes; the limit is ", limit, ": use a part of it");
  std::string all;
  for_each_code_point(text, [&](char32_t c) { all += to_utf8(c); });
  return all;
}

Vocabulary vocabulary_of(const std::map<std::string, std::string>& data, Unit unit) {
  const auto found = data.find("vocabulary");
  check<IoError>(found != data.end() && !found->second.empty(), "text",
                 "the metadata of the weights file have no 'vocabulary': train again");
  try {
    if (unit == Unit::kChar) return Vocabulary::of(found->second);
    std::vector<std::string> symbols;
    const Json list = Json::parse(found->second);
    for (const Json& symbol : list.items()) symbols.push_back(symbol.text());
    return Vocabulary(std::move(symbols), unit);
  } catch (const ValueError& e) {
    fail<IoError>(
        "text", "use an intact copy of the weights file; its 'vocabulary' is damaged: ", e.what());
  }
}

}  // namespace heed::nn
