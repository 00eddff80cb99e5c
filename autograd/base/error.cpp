#include "autograd/base/error.h"

#include <array>
#include <charconv>

namespace heed {
void append_text(std::string& out, char c) { out += c; }
// Formats the number in the same way as operator<< of a stream with default settings.
void append_text(std::string& out, double value) {
  std::array<char, 32> buffer;
  char* const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                  std::chars_format::general, 6)
                        .ptr;
  out.append(buffer.data(), end);
}

void Part::append_to(std::string& out) const {
  append_ ? append_(out, value_) : void(out += text_);
}

std::string error_text(std::string_view op, std::initializer_list<Part> parts) {
  std::string text(op);
  text += ": ";
  for (const Part& part : parts) part.append_to(text);
  return text;
}

}  // namespace heed
