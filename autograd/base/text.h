// Reads numbers from text, splits text and joins words.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

/// All of `text` as a number, in decimal unless an integer's `base` says otherwise, or nothing.
template <class T, class... Base>
std::optional<T> parse_number(std::string_view text, Base... base) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base...);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// "a, b and c"; `last` stands between the last two.
std::string join(const std::vector<std::string>& words, std::string_view last = " and ");

/// Returns the parts of `text` between occurrences of `separator`: n separators give n + 1 parts,
/// which may be empty. An empty text has one empty part.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace heed
