// Measures and converts text for pictures. The font is DejaVu Sans. A `size` is in pixels per em
// and is rounded so that capital letters are a whole number of pixels high. Widths and heights are
// in pixels. Strings are UTF-8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed::plot {

/// Smallest text size in pixels per em. Functions that measure or draw text throw ValueError for a
/// smaller size.
inline constexpr double kSmallestText = 11;

int cap_height(double size);   ///< height from the baseline to the top of a capital
int line_height(double size);  ///< distance from one baseline to the next
double em_size(double size);   ///< `size` after rounding, in pixels per em

/// Returns `text` with every control character and every invalid byte replaced by an escape: `\n`,
/// `\t`, `\r`, or a number such as `\x1b`. Any other invisible character except spaces is replaced
/// by its code point, such as `U+202E`.
std::string visible_text(std::string_view text);

/// Returns a token as the label of an axis. This is visible_text(token), in which a space is
/// replaced by U+2423 (open box). Any other invisible character is replaced by its
/// code point, for example `U+00A0`.
std::string token_text(std::string_view token);

/// Returns the text as the content of an element or of an attribute of XML 1.0, in UTF-8.
/// Characters that XML does not allow, and bytes that are not UTF-8, are replaced by U+FFFD.
std::string xml_text(std::string_view text);

/// Returns the width of `text` on one line.
int text_width(std::string_view text, double size);
/// Returns the width of the widest line; 0 if `lines` is empty.
int text_width(const std::vector<std::string>& lines, double size);

/// Returns visible_text(text), broken at spaces into lines of at most `width` pixels. A word that
/// is wider than `width` is not broken; it has a line of its own.
std::vector<std::string> wrap_text(std::string_view text, int width, double size);

/// Returns visible_text(text) if it is at most `width` pixels wide. Otherwise returns its
/// beginning, followed by an ellipsis.
std::string shorten_text(std::string_view text, int width, double size);

/// Returns `value` as text with at most `digits` significant digits: 0.333, 1.5·10⁻⁷, nan.
std::string format_number(double value, int digits = 3);

/// Returns the typographic form of a number that std::printf or fmt has formatted. For example,
/// "-1.5e-07" becomes "−1.5·10⁻⁷".
std::string typeset_number(std::string_view plain);

}  // namespace heed::plot
