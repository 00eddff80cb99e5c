// UTF-8, strictly (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heed::autograd {

/// The code point that starts at byte `at`, which moves behind it. Empty, and `at` stays, if the
/// bytes there are not UTF-8. Needs at < text.size().
std::optional<char32_t> next_code_point(std::string_view text, std::size_t& at);

bool is_utf8(std::string_view text);

std::string to_utf8(char32_t c);

/// For a label or an error: the character itself, or \n, \t, \r, U+0007 where it does not print.
std::string printable(char32_t c);

/// "U+00E9".
std::string code_point_name(char32_t c);

}  // namespace heed::autograd
