// Strict UTF-8 (RFC 3629): overlong forms, surrogates and code points above U+10FFFF are invalid.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace heed::autograd {

/// Returns the code point that starts at byte `at`, and sets `at` to the byte after it. If the
/// bytes are not valid UTF-8, returns nullopt and leaves `at` unchanged. Requires at < text.size().
std::optional<char32_t> next_code_point(std::string_view text, std::size_t& at);

/// Returns true if the whole text is valid UTF-8.
bool is_utf8(std::string_view text);

/// Returns the UTF-8 bytes of a code point.
std::string to_utf8(char32_t c);

/// Returns true for a Unicode space other than U+0020, for the empty Braille pattern U+2800, and
/// for a variation selector U+FE00 to U+FE0F.
bool is_blank(char32_t c);

/// Returns a text for labels and errors: the character itself, an escape such as \\n, \\t, \\r or
/// \\x1b for a control character, or the name of another invisible character, such as U+200B. The
/// space U+0020 is returned unchanged.
std::string printable(char32_t c);

/// Returns printable() of each character of `text`, which must be valid UTF-8.
std::string printable(std::string_view text);

/// Returns the name of a code point, for example "U+00E9".
std::string code_point_name(char32_t c);

}  // namespace heed::autograd
