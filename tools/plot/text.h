// Text of the pictures: DejaVu Sans, antialiased, at any size from kSmallestText up. Sizes are
// pixels per em, rounded so that capitals are a whole number of pixels high; widths and heights are
// pixels. Strings are UTF-8.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed::plot {

inline constexpr double kSmallestText = 11;  ///< pixels per em; smaller text is a ValueError

int cap_height(double size);   ///< from the top of a capital to the baseline
int line_height(double size);  ///< from one baseline to the next

/// `text` with what does not print spelled out: \n, \t, \r, U+0007; an invalid byte is \xff.
std::string visible_text(std::string_view text);

/// A token as the label of an axis: visible_text, and also blanks are seen: a space is U+2423, an
/// open box; any other character without ink is its name, U+00A0.
std::string token_text(std::string_view token);

/// Width of the one line `text`.
int text_width(std::string_view text, double size);
/// Of the widest of `lines`; 0 if there is none.
int text_width(const std::vector<std::string>& lines, double size);

/// `text`, made visible, broken at spaces into lines of at most `width` (a longer word gets its own
/// line).
std::vector<std::string> wrap_text(std::string_view text, int width, double size);

/// `text`, made visible, if it is at most `width` wide; else its beginning and an ellipsis.
std::string shorten_text(std::string_view text, int width, double size);

/// `value` with `digits` significant digits: 0.333, 1.5·10⁻⁷, nan.
std::string format_number(double value, int digits = 3);

/// A number that std::printf or fmt wrote, as books print it: -1.5e-07 becomes −1.5·10⁻⁷.
std::string typeset_number(std::string_view plain);

}  // namespace heed::plot
