// Errors of heed: one hierarchy, one check(). The text is built only when a check fails.
#pragma once

#include <cstdint>
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

/// One part of an error's text. Holds what it was made of; text appears only when a check fails.
class Part {
 public:
  Part(std::string_view text) : text_(text), append_(append_string) {}
  Part(char c) : integer_(c), append_(append_char) {}
  Part(double value) : number_(value), append_(append_number) {}
  template <class T>
  requires std::is_integral_v<T> Part(T value)
      : integer_(std::int64_t(value)),
        append_(std::is_signed_v<T> ? append_integer : append_unsigned) {}
  /// Of any type with a function append_text(std::string&, const T&): DType and Shape have one.
  template <class T>
  requires requires(std::string& out, const T& value) { append_text(out, value); }
  Part(const T& value)
      : object_(&value), append_([](std::string& out, const Part& part) {
          append_text(out, *static_cast<const T*>(part.object_));
        }) {}
  void append_to(std::string& out) const { append_(out, *this); }

 private:
  static void append_string(std::string& out, const Part& part);
  static void append_char(std::string& out, const Part& part);
  static void append_number(std::string& out, const Part& part);
  static void append_integer(std::string& out, const Part& part);
  static void append_unsigned(std::string& out, const Part& part);

  union {
    std::string_view text_;
    std::int64_t integer_;
    double number_;
    const void* object_;
  };
  void (*append_)(std::string& out, const Part& part);
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
