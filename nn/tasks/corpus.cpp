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

void check_regular(const std::string& path) {
  check<IoError>(!is_file(path) || std::filesystem::is_regular_file(path), "text", "'", path,
                 "' is a pipe or a device, but evaluating or resuming a run reads the text again: "
                 "write the text to a file and use the file");
}

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

// Characters of a file that are left out of its text, except for those in Text::kept: the byte
// order mark, carriage returns, and NUL. NUL causes an error, because a text file does not contain
// it.
constexpr char32_t kLeftOut[] = {U'\uFEFF', U'\r', U'\0'};

// A text file and the rules by which it is read.
struct Text {
  // If `known` is given, only characters of its symbols are kept.
  explicit Text(const std::string& path, const TextOptions& o = {},
                const Vocabulary* known = nullptr)
      : file(path), by_line(o.by_line) {
    for (const char32_t c : kLeftOut) {
      const auto has = [&](const std::string& s) { return s.find(to_utf8(c)) != s.npos; };
      if (o.newlines == Newlines::kKeep && (!known || std::ranges::any_of(known->symbols(), has)))
        kept += c;
    }
    if (by_line) std::erase(kept, U'\r');
  }
  bool leaves_out(char32_t c) const { return kept.find(c) == kept.npos; }

  InputFile file;
  bool by_line;
  std::u32string kept;       // the characters among kLeftOut that are tokens
  bool has_returns = false;  // carriage returns were left out
};

// Throws IoError for a byte that is not UTF-8 or is 0. The message names the probable encoding, or
// states that the file is probably not a text, or that the text before the byte is UTF-8.
[[noreturn]] void fail_encoding(const InputFile& file, std::uint64_t at, std::uint8_t value) {
  std::string start(std::size_t(std::min<std::uint64_t>(kPiece, file.size())), '\0');
  file.read(0, std::as_writable_bytes(std::span(start)));
  std::size_t zeros[2] = {}, controls = 0, c1 = 0, before = 0;  // zeros: at even and odd places
  for (std::size_t i = 0; i < start.size(); ++i) {
    const auto byte = std::uint8_t(start[i]);
    zeros[i % 2] += byte == 0;
    controls += byte < 0x20 && !(byte >= '\t' && byte <= '\r') && byte != 0x1B;
    c1 += byte >= 0x80 && byte < 0xA0;
    before += byte >= 0x80 && i < at;
  }
  const bool has_mark = start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF");
  const auto [fewer, more] = std::minmax(zeros[0], zeros[1]);
  const bool is_utf16 = has_mark || more > std::max(start.size() / 4, 8 * fewer);
  const char* const endian = has_mark ? "UTF-16" : zeros[0] == more ? "UTF-16BE" : "UTF-16LE";
  const bool is_utf32 = start.starts_with(std::string_view("\xFF\xFE\0\0", 4)) ||
                        start.starts_with(std::string_view("\0\0\xFE\xFF", 4));
  const char* const encoding = is_utf32   ? "UTF-32"
                               : is_utf16 ? endian
                               : c1 > 0   ? "cp1252"
                                          : "latin1";
  std::string advice =
      fmt::format("it is probably {0}; convert it with iconv -f {0} -t UTF-8", encoding);
  if (!is_utf32 && !is_utf16 && controls > 0)
    advice = "this is probably not a text file; use a text file";
  else if (!is_utf32 && !is_utf16 && before > 0)
    advice = "the text before it is UTF-8; repair or remove this byte";
  fail<IoError>("text", "'", file.path(), "' is not UTF-8 text at byte ", at, " (value ",
                int{value}, "): ", advice);
}

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
      if (!c || (*c == U'\0' && text.leaves_out(*c))) fail_encoding(file, start, byte);
      const bool is_return = *c == U'\r' && text.leaves_out(*c);
      const bool is_mark = *c == U'\uFEFF' && start == 0 && text.leaves_out(*c);
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

// Throws ValueError for a character or word that is not a symbol of the vocabulary.
[[noreturn]] void fail_unknown(const std::string& symbol, std::int64_t line, const InputFile& file,
                               const Vocabulary& vocabulary) {
  const bool word = vocabulary.unit() == Unit::kWord;
  fail<ValueError>("text", "'", file.path(), "' contains '", printable(symbol), "' in line ", line,
                   ", which is not in the vocabulary: ", vocabulary.summary(), "; ",
                   word ? "the vocabulary has no <unk> for unknown words: replace it in the file, "
                          "or train with a smaller `max-words`"
                        : "replace or remove it in the file");
}

// Appends the file as tokens of corpus.vocabulary. If the vocabulary was made from an earlier
// reading of this file, `length` is the number of units in that reading.
void read_known(Corpus& corpus, Text& text, std::optional<std::size_t> length = {}) {
  const Vocabulary& vocabulary = corpus.vocabulary;
  const auto unknown = vocabulary.find(kUnknown);
  std::int64_t line = 1;
  const auto add = [&](const std::string& symbol) {
    const auto found = vocabulary.find(symbol);
    if (length) check_unchanged((found || unknown) && corpus.tokens.size() < *length, text.file);
    if (!found && !unknown) fail_unknown(symbol, line, text.file, vocabulary);
    corpus.unknown += !found || found == unknown;
    corpus.tokens.push_back(found ? *found : *unknown);
    line += symbol == "\n";
  };
  for_each_unit(text, vocabulary.unit(), add);
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
  check<IoError>(symbols.size() <= kMaxSymbols, "text", "'", text.file.path(), "' has ",
                 symbols.size(), " different characters; use a text of at most ", kMaxSymbols);
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

void read_words(Corpus& corpus, Text& text, const TextOptions& o) {
  std::unordered_map<std::string, std::int64_t> counts;
  std::size_t length = 0;
  for_each_unit(text, Unit::kWord, [&](const std::string& word) { ++counts[word], ++length; });
  bool leaves_out = counts.erase(kUnknown) > 0;
  if (o.by_line) counts.erase("\n");
  std::vector<std::string> symbols = ranked(counts);
  if (symbols.size() > std::size_t(o.max_words)) {
    leaves_out = true;
    symbols.resize(std::size_t(o.max_words));
  }
  if (o.by_line) symbols.insert(symbols.begin(), "\n");
  if (leaves_out) symbols.push_back(kUnknown);
  corpus.vocabulary = Vocabulary(symbols, Unit::kWord);
  corpus.data["vocabulary"] = Json(symbols).dump();
  corpus.tokens = TokenArray(corpus.vocabulary.size());
  corpus.tokens.reserve(length);
  read_known(corpus, text, length);
  check_unchanged(corpus.tokens.size() == length, text.file);
}

// Checks the size of a text, and adds its size and hash to `data`, under keys that start with
// `prefix`.
void add_identity(std::map<std::string, std::string>& data, const InputFile& file,
                  const std::string& prefix) {
  check<IoError>(file.size() > 0, "text", "'", file.path(), "' is empty; use another file");
  check<IoError>(file.size() <= kMaxTextBytes, "text", "'", file.path(), "' has ", file.size(),
                 " bytes; the limit is ", kMaxTextBytes, " (1 GiB): use a part of it");
  data[prefix + "text_size"] = std::to_string(file.size());
  data[prefix + "text_hash"] = fnv1a(file);
}

std::string note_of(const Text& text) {
  return text.file.path() + (text.by_line ? ": carriage returns are left out"
                                          : ": line ends CR LF and CR are read as LF");
}

// Appends the tokens of the held-out file o.val_path. The tokens before them are for training.
void read_held_out(Corpus& corpus, const TextOptions& o) {
  // The last line of the training file may end without a newline. An empty line has no effect.
  if (o.by_line) corpus.tokens.push_back(corpus.vocabulary.find("\n").value());
  corpus.training = std::int64_t(corpus.tokens.size());
  const std::int64_t unknown = corpus.unknown;
  check_regular(o.val_path);
  Text text(o.val_path, o, &corpus.vocabulary);
  add_identity(corpus.data, text.file, "val_");
  read_known(corpus, text);
  if (text.has_returns) corpus.note += (corpus.note.empty() ? "" : "; ") + note_of(text);
  corpus.unknown = unknown;
}

}  // namespace

Corpus read_corpus(const TextOptions& o, const Vocabulary* known) {
  check<ValueError>(o.max_words >= 1 && o.max_words <= std::int64_t(kMaxSymbols) - 2, "max-words",
                    "needs 1 to ", kMaxSymbols - 2, ", got ", o.max_words);
  Corpus corpus;
  check_regular(o.path);
  Text text(o.path, o, known);
  add_identity(corpus.data, text.file, "");
  if (known) {
    corpus.vocabulary = *known, corpus.tokens = TokenArray(known->size());
    read_known(corpus, text);
  } else if (o.unit == Unit::kChar) {
    read_characters(corpus, text);
  } else {
    read_words(corpus, text, o);
  }
  if (text.has_returns) corpus.note = note_of(text);
  if (text.has_returns && !known && !o.by_line)
    corpus.note += "; `newlines` keep leaves them as they are";
  if (known) return corpus;
  corpus.training = std::int64_t(corpus.tokens.size());
  if (!o.val_path.empty()) read_held_out(corpus, o);
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
