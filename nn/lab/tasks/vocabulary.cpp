#include "nn/lab/tasks/vocabulary.h"

#include "autograd/base/error.h"

namespace heed::lab {

using namespace autograd;

namespace {

constexpr std::size_t kLongestSummary = 200;  // bytes; a Chinese text may have thousands of symbols

char32_t first_of(const std::string& symbol) {
  std::size_t at = 0;
  return next_code_point(symbol, at).value_or(0);
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> symbols, Unit unit)
    : symbols_(std::move(symbols)), unit_(unit) {
  for (const std::string& symbol : symbols_) {
    std::size_t at = 0;
    const bool one = !symbol.empty() && next_code_point(symbol, at) && at == symbol.size();
    const auto id = Index(ids_.size());
    check<ValueError>(one || (unit == Unit::kWord && !symbol.empty() && is_utf8(symbol)),
                      "vocabulary", "symbol ", id, " is '", symbol, "': needs ",
                      unit == Unit::kWord ? "a word in UTF-8" : "exactly one UTF-8 character");
    const auto [old, is_new] = ids_.emplace(symbol, id);
    check<ValueError>(is_new, "vocabulary", "'", symbol, "' is the symbol of token ", old->second,
                      " and of token ", id, ": needs a different symbol for each token");
  }
}

Vocabulary Vocabulary::of(std::string_view symbols) {
  std::vector<std::string> list;
  for (std::size_t at = 0; at < symbols.size();) {
    const auto c = next_code_point(symbols, at);
    check<ValueError>(c.has_value(), "vocabulary", "byte ", at,
                      " is not UTF-8; convert the symbols");
    list.push_back(to_utf8(*c));
  }
  return Vocabulary(std::move(list));
}

Vocabulary Vocabulary::letters(Index n, const std::string& special) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return of(std::string(kLetters.substr(0, std::size_t(n))) + special);
}

std::optional<Index> Vocabulary::find(const std::string& symbol) const {
  const auto found = ids_.find(symbol);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

// Returns advice for the error about a word that is not a symbol, or "" if there is none.
std::string Vocabulary::advice(const std::string& word) const {
  if (find(" " + word)) return "; it is with a space before it: write ' " + word + "'";
  if (word.starts_with(' ') && find(word.substr(1)))
    return "; it is without the space before it: write '" + word.substr(1) + "'";
  return "";
}

std::vector<Index> Vocabulary::encode(std::string_view text, std::string_view what) const {
  std::vector<Index> ids;
  const auto add = [&](const std::string& symbol) {
    const auto id = find(symbol);
    if (!id && unit_ == Unit::kWord)
      fail<ValueError>(what, "'", printable(symbol), "' (word ", ids.size() + 1,
                       ", with the space before it) is not in the vocabulary: ", summary(),
                       advice(symbol));
    if (!id)
      fail<ValueError>(what, "'", printable(symbol), "' (", code_point_name(first_of(symbol)),
                       ", character ", ids.size() + 1, ") is not in the vocabulary: ", summary());
    ids.push_back(*id);
  };
  UnitSplitter splitter(unit_);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const auto c = next_code_point(text, at);
    check<ValueError>(c.has_value(), what, "byte ", start, " is not UTF-8; convert the text");
    splitter.put(*c, add);
  }
  splitter.end(add);
  return ids;
}

std::string Vocabulary::decode(std::span<const Index> ids) const {
  std::string text;
  for (const Index id : ids) {
    check<ValueError>(id >= 0 && id < size(), "decode", "token ", id, " is not in [0, ", size(),
                      ")");
    text += symbols_[std::size_t(id)];
  }
  return text;
}

std::string Vocabulary::label(Index id) const { return printable(decode({&id, 1})); }

std::vector<std::string> Vocabulary::labels(std::span<const Index> ids) const {
  std::vector<std::string> all;
  for (const Index id : ids) all.push_back(label(id));
  return all;
}

std::string Vocabulary::summary() const {
  if (unit_ == Unit::kWord) return summary_of_words();
  std::vector<char32_t> code_points;
  for (const std::string& symbol : symbols_) code_points.push_back(first_of(symbol));
  std::string text;
  for (std::size_t first = 0, last; first < code_points.size(); first = last + 1) {
    for (last = first; last + 1 < code_points.size(); ++last)
      if (code_points[last + 1] != code_points[last] + 1) break;
    if (last - first < 3) last = first;  // a range such as "a-d" needs 4 or more symbols
    if (text.size() > kLongestSummary)
      return text + " ... (" + std::to_string(symbols_.size()) + " symbols)";
    if (first > 0) text += ' ';
    text += code_points[first] == U' ' ? "space" : printable(code_points[first]);
    if (last > first) text.append("-").append(printable(code_points[last]));
  }
  return text;
}

std::string Vocabulary::summary_of_words() const {
  std::string text;
  for (const std::string& symbol : symbols_) {
    if (text.size() > kLongestSummary) break;
    text += "'" + printable(symbol) + "' ";
  }
  return text + "... (" + std::to_string(symbols_.size()) + " words)";
}

}  // namespace heed::lab
