#include "nn/tasks/vocabulary.h"

#include "autograd/base/error.h"
#include "autograd/base/utf8.h"

namespace heed::nn {

using namespace autograd;

Vocabulary::Vocabulary(std::vector<std::string> symbols) : symbols_(std::move(symbols)) {
  for (const std::string& symbol : symbols_) {
    std::size_t at = 0;
    const auto c = symbol.empty() ? std::nullopt : next_code_point(symbol, at);
    check<ValueError>(c && at == symbol.size(), "vocabulary", "symbol ", code_points_.size(),
                      " is '", symbol, "': needs exactly one UTF-8 character");
    const auto id = std::int64_t(code_points_.size());
    const auto [old, is_new] = ids_.emplace(*c, id);
    check<ValueError>(is_new, "vocabulary", "'", symbol, "' spells token ", old->second,
                      " and token ", id, ": each token needs a symbol of its own");
    code_points_.push_back(*c);
  }
}

Vocabulary Vocabulary::of(std::string_view symbols) {
  std::vector<std::string> list;
  for (std::size_t at = 0; at < symbols.size();) {
    const auto c = next_code_point(symbols, at);
    check<ValueError>(c.has_value(), "vocabulary", "byte ", at, " is not UTF-8");
    list.push_back(to_utf8(*c));
  }
  return Vocabulary(std::move(list));
}

std::vector<std::int64_t> Vocabulary::encode(std::string_view text) const {
  std::vector<std::int64_t> ids;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = at;
    const auto c = next_code_point(text, at);
    check<ValueError>(c.has_value(), "encode", "byte ", start, " is not UTF-8");
    const auto found = ids_.find(*c);
    if (found == ids_.end())
      fail<ValueError>("encode", "'", printable(*c), "' (", code_point_name(*c), ", character ",
                       ids.size() + 1, ") is not in the vocabulary: ", summary());
    ids.push_back(found->second);
  }
  return ids;
}

std::string Vocabulary::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  for (const std::int64_t id : ids) {
    check<ValueError>(id >= 0 && id < size(), "decode", "token ", id, " is not in [0, ", size(),
                      ")");
    text += symbols_[std::size_t(id)];
  }
  return text;
}

std::string Vocabulary::label(std::int64_t id) const {
  check<ValueError>(id >= 0 && id < size(), "label", "token ", id, " is not in [0, ", size(), ")");
  return printable(code_points_[std::size_t(id)]);
}

std::string Vocabulary::summary() const {
  constexpr std::size_t kLongest = 200;  // bytes: a Chinese text has thousands of symbols
  std::string text;
  for (std::size_t first = 0, last; first < code_points_.size(); first = last + 1) {
    for (last = first; last + 1 < code_points_.size(); ++last)
      if (code_points_[last + 1] != code_points_[last] + 1) break;
    if (last - first < 3) last = first;  // ", - ." is no range, to the eye
    if (text.size() > kLongest)
      return text + " ... (" + std::to_string(symbols_.size()) + " symbols)";
    if (first > 0) text += ' ';
    text += code_points_[first] == U' ' ? "space" : printable(code_points_[first]);
    if (last > first) text.append("-").append(printable(code_points_[last]));
  }
  return text;
}

}  // namespace heed::nn
