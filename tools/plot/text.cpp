#include "tools/plot/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "autograd/base/utf8.h"
#include "tools/plot/font.h"

namespace heed::plot {

using autograd::next_code_point;

// In DejaVu Sans an em is 2048 units, a capital letter is 1493 units high, and the distance between
// two lines is 2384 units.
int cap_height(double size) { return int(std::lround(size * 1493 / 2048)); }
double em_size(double size) { return cap_height(size) * 2048.0 / 1493; }
int line_height(double size) { return int(std::ceil(size * 2384 / 2048)) + 3; }

std::string visible_text(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (const auto c = next_code_point(text, at))
      out += autograd::is_blank(*c) ? autograd::to_utf8(*c) : autograd::printable(*c);
    else
      out += fmt::format("\\x{:02x}", std::uint8_t(text[at++]));
  }
  return out;
}

std::string token_text(std::string_view token) {
  const std::string visible = visible_text(token);
  std::string out;
  for (std::size_t at = 0; at < visible.size();) {
    const char32_t c = next_code_point(visible, at).value();
    out += c == U' '                ? autograd::to_utf8(U'\u2423')
           : c < 0x80 || has_ink(c) ? autograd::to_utf8(c)
                                    : autograd::code_point_name(c);
  }
  return out;
}

std::string xml_text(std::string_view text) {
  const auto is_allowed = [](char32_t c) {  // section 2.2 of the XML specification
    return c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c < 0xfffe) || c > 0xffff;
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::optional<char32_t> c = next_code_point(text, at);
    if (!c) ++at;  // a byte that is not UTF-8
    if (c == U'<' || c == U'>' || c == U'&' || c == U'"')
      out += fmt::format("&#{};", unsigned(*c));
    else
      out += autograd::to_utf8(c && is_allowed(*c) ? *c : U'\ufffd');
  }
  return out;
}

int text_width(std::string_view text, double size) {
  return int(std::ceil(advance_width(text, size)));
}

int text_width(const std::vector<std::string>& lines, double size) {
  int widest = 0;
  for (const std::string& line : lines) widest = std::max(widest, text_width(line, size));
  return widest;
}

std::vector<std::string> wrap_text(std::string_view text, int width, double size) {
  const std::string visible = visible_text(text);
  text = visible;
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string word(text.substr(0, space));
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (lines.empty() || text_width(lines.back() + " " + word, size) > width)
      lines.push_back(word);
    else
      lines.back() += " " + word;
  }
  return lines;
}

std::string shorten_text(std::string_view text, int width, double size) {
  const std::string visible = visible_text(text);
  if (text_width(visible, size) <= width) return visible;
  const std::string ellipsis = autograd::to_utf8(U'\u2026');
  std::size_t fits = 0;
  for (std::size_t end = 0; end < visible.size();) {
    next_code_point(visible, end);
    if (text_width(visible.substr(0, end) + ellipsis, size) > width) break;
    fits = end;
  }
  return visible.substr(0, fits) + ellipsis;
}

std::string format_number(double value, int digits) {
  return typeset_number(fmt::format("{:.{}g}", value, std::max(digits, 1)));
}

std::string typeset_number(std::string_view plain) {
  static constexpr std::string_view kRaised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  std::string out = plain.starts_with('-') ? "−" : "";
  if (!out.empty()) plain.remove_prefix(1);
  const std::size_t e = plain.find('e');
  const std::string_view mantissa = plain.substr(0, e);
  if (e == std::string_view::npos) return out.append(plain);
  if (mantissa != "1") out.append(mantissa).append("·");
  out += "10";
  for (const char c : std::to_string(std::stoi(std::string(plain.substr(e + 1)))))
    out += c == '-' ? "⁻" : kRaised[c - '0'];
  return out;
}

}  // namespace heed::plot
