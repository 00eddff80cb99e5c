// The reader of text files. It reads a file once, piece by piece.
#include "nn/lab/tasks/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <tuple>
#include <unordered_map>

#include "autograd/base/error.h"
#include "autograd/base/files.h"
#include "autograd/base/utf8.h"
#include "nn/io/json.h"
#include "nn/io/limits.h"

namespace heed::lab {

using namespace autograd;

namespace {

// A text file and the rules by which it is read.
struct Text {
  explicit Text(const std::string& path, bool lines = false) : file(path), by_line(lines) {}

  InputFile file;
  bool by_line;
  bool has_returns = false;                  // carriage returns were left out
  std::uint64_t hash = 0xcbf29ce484222325u;  // 64-bit FNV-1a (Fowler, Noll, Vo) of the bytes
};

// Calls f(code point) for each code point of the text.
template <class F>
void for_each_code_point(Text& text, const F& f) {
  constexpr std::size_t kPiece = 1 << 20;  // bytes
  constexpr std::size_t kLongest = 4;      // largest number of bytes of a code point
  const InputFile& file = text.file;
  std::string piece, rest;  // `rest`: bytes that were read but not decoded
  char32_t last = 0;
  for (std::uint64_t read = 0; read < file.size();) {
    piece.resize(std::size_t(std::min<std::uint64_t>(kPiece, file.size() - read)));
    file.read(read, std::as_writable_bytes(std::span(piece)));
    for (const char c : piece) text.hash = (text.hash ^ std::uint8_t(c)) * 0x100000001b3u;
    rest += piece;
    read += piece.size();
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
  }
}

// The units of a text as ids: those of a known vocabulary, or in the order in which the units
// appear first.
class Units {
 public:
  Units(const InputFile& file, Unit unit, const Vocabulary* known)
      : file_(file), unit_(unit), known_(known), splitter_(unit) {
    tokens.reserve(std::size_t(file.size()));
  }

  void put(char32_t c) {
    // A text of 1 GiB takes seconds if its characters are looked up as strings.
    if (unit_ == Unit::kChar)
      add(by_code_point_[c] >= 0 ? by_code_point_[c] : by_code_point_[c] = id_of(to_utf8(c)));
    else
      splitter_.put(c, [&](const std::string& word) { add(id_of(word)); });
  }
  void end() {
    splitter_.end([&](const std::string& word) { add(id_of(word)); });
  }

  // Returns the id of a unit, which is new unless it is known.
  Index id_of(const std::string& unit) {
    if (known_) {
      const auto found = known_->find(unit);
      check<ValueError>(found.has_value(), "text", "'", file_.path(), "' contains '",
                        printable(unit), "' in line ", line_,
                        ", which is not in the vocabulary: ", known_->summary(),
                        "; replace or remove it in the file");
      return *found;
    }
    const auto [at, is_new] = ids_.try_emplace(unit, std::ssize(symbols));
    if (is_new) symbols.push_back(unit);
    check<IoError>(symbols.size() <= kMaxSymbols, "text", "'", file_.path(), "' has more than ",
                   kMaxSymbols, unit_ == Unit::kChar ? " different characters" : " different words",
                   "; use a part of it");
    return at->second;
  }

  TokenArray tokens;
  std::vector<std::string> symbols;  // by id, unless a vocabulary is known

 private:
  void add(Index id) {
    tokens.push_back(id);
    line_ += known_ && id == newline_;
  }

  const InputFile& file_;
  Unit unit_;
  const Vocabulary* known_;
  UnitSplitter splitter_;
  std::unordered_map<std::string, Index> ids_;
  std::vector<Index> by_code_point_ = std::vector<Index>(0x110000, -1);
  Index newline_ = known_ ? known_->find("\n").value_or(-1) : -1;
  Index line_ = 1;
};

// Gives the units their final ids, and sets the vocabulary: first `fixed` symbols, then characters
// in the order of their code points, or words by decreasing frequency and then by their bytes.
void rank(Corpus& corpus, Units& units, Unit unit, std::size_t fixed) {
  const std::vector<std::string>& symbols = units.symbols;
  std::vector<Index> counts(symbols.size());
  for (std::size_t i = 0; i < units.tokens.size() && unit == Unit::kWord; ++i)
    ++counts[std::size_t(units.tokens[i])];
  std::vector<std::size_t> order(symbols.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin() + std::ptrdiff_t(fixed), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(counts[b], symbols[a]) < std::tie(counts[a], symbols[b]);
  });
  std::vector<Index> ids(symbols.size());
  std::vector<std::string> ranked;
  for (const std::size_t old : order) {
    ids[old] = std::ssize(ranked);
    ranked.push_back(symbols[old]);
  }
  for (std::size_t i = 0; i < units.tokens.size(); ++i)
    units.tokens.set(i, ids[std::size_t(units.tokens[i])]);
  std::string& record = corpus.data["vocabulary"];
  for (const std::string& symbol : ranked) record += symbol;
  if (unit == Unit::kWord) record = Json(ranked).dump();
  corpus.vocabulary = Vocabulary(std::move(ranked), unit);
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
  Units units(file, known ? known->unit() : o.unit, known);
  if (o.by_line && !known) units.id_of("\n");  // token 0
  for_each_code_point(text, [&](char32_t c) { units.put(c); });
  units.end();
  if (known)
    corpus.vocabulary = *known;
  else
    rank(corpus, units, o.unit, o.by_line ? 1 : 0);
  corpus.tokens = std::move(units.tokens);
  corpus.data["text_size"] = std::to_string(file.size());
  corpus.data["text_hash"] = fmt::format("{:016x}", text.hash);
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

}  // namespace heed::lab
