#include "autograd/base/error.h"

#include <array>
#include <charconv>

namespace heed {
namespace {

template <class... Form>
void append_chars(std::string& out, Form... form) {
  std::array<char, 32> buffer;
  out.append(buffer.data(),
             std::to_chars(buffer.data(), buffer.data() + buffer.size(), form...).ptr);
}

}  // namespace

void Part::append_string(std::string& out, const Part& part) { out += part.text_; }
void Part::append_char(std::string& out, const Part& part) { out += char(part.integer_); }
// Six digits, as a stream prints them by default.
void Part::append_number(std::string& out, const Part& part) {
  append_chars(out, part.number_, std::chars_format::general, 6);
}
void Part::append_integer(std::string& out, const Part& part) { append_chars(out, part.integer_); }
void Part::append_unsigned(std::string& out, const Part& part) {
  append_chars(out, std::uint64_t(part.integer_));
}

std::string error_text(std::string_view op, std::initializer_list<Part> parts) {
  std::string text(op);
  text += ": ";
  for (const Part& part : parts) part.append_to(text);
  return text;
}

}  // namespace heed
