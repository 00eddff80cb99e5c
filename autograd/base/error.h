// Errors of heed: one hierarchy, one check(). The text is built only when a check fails.
#pragma once

#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace heed::autograd {

/// Base of everything heed throws. The text names the op, what was given and what is needed.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Shapes, ranks or axes that do not fit.
struct ShapeError : Error {
  using Error::Error;
};
/// A dtype the op does not take, or two that differ.
struct DTypeError : Error {
  using Error::Error;
};
/// A value out of range, or a call in the wrong state.
struct ValueError : Error {
  using Error::Error;
};
/// A non-finite number where a finite one is needed.
struct NumericError : Error {
  using Error::Error;
};
/// A file that cannot be read or written, or whose contents are not what they claim.
struct IoError : Error {
  using Error::Error;
};

}  // namespace heed::autograd

// For heed's own files, which are all inside this namespace: `using namespace heed::autograd` does
// not bring these names.
namespace heed {

/// Appends a value to an error's text; a double with six digits. Other types have a function of
/// this name in their own namespace, as DType and Shape do.
void append_text(std::string& out, char c);
void append_text(std::string& out, double value);
template <std::integral T>
void append_text(std::string& out, T value) {
  out += std::to_string(value);
}

/// One part of an error's text: refers to what it was made of; text appears only when a check
/// fails.
class Part {
 public:
  Part(std::string_view text) : text_(text) {}
  template <class T>
  requires(!std::is_convertible_v<const T&, std::string_view>) Part(const T& value)
      : value_(&value), append_([](std::string& out, const void* part) {
          append_text(out, *static_cast<const T*>(part));
        }) {}
  void append_to(std::string& out) const;

 private:
  std::string_view text_;
  const void* value_ = nullptr;
  void (*append_)(std::string& out, const void* value) = nullptr;  // null for a text
};

/// "<op>: <parts...>".
std::string error_text(std::string_view op, std::initializer_list<Part> parts);

/// Throws E with the text "<op>: <parts...>".
template <class E = autograd::ShapeError, class... Parts>
[[noreturn]] void fail(std::string_view op, const Parts&... parts) {
  throw E(error_text(op, {Part(parts)...}));
}

/// Throws E with the text "<op>: <parts...>" unless `ok`.
template <class E = autograd::ShapeError, class... Parts>
void check(bool ok, std::string_view op, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail<E>(op, parts...);
}

}  // namespace heed
