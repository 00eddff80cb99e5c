// Functions that parse numbers, split text and join words, and a stream to a text.
#pragma once

#include <charconv>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace heed {

/// A stream to a text. Its numbers have a decimal point and no groups under any
/// std::locale::global.
struct TextStream : std::ostringstream {
  TextStream() { imbue(std::locale::classic()); }
};

/// Parses `text` as a number of type T. For an integer, `base` is the base of the number (default
/// 10). Returns nullopt unless the whole text is a number that T can represent.
template <class T, class... Base>
std::optional<T> parse_number(std::string_view text, Base... base) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base...);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// Joins words with ", ", and the last two words with `last`, for example "a, b and c".
std::string join(const std::vector<std::string>& words, std::string_view last = " and ");

/// Splits `text` at each `separator`. A text with n separators has n + 1 parts, which may be empty.
/// For an empty text, returns one empty part.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace heed
