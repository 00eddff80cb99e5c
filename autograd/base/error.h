// Exception types of heed, and check(), which throws them. An error's text is built only if the
// check fails.
#pragma once

#include <concepts>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace heed::autograd {

/// Base class of all exception types of heed. heed can also throw std::bad_alloc. The text of an
/// Error states the op, the accepted input and the given input.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Thrown if shapes, ranks or axes are invalid or do not match.
struct ShapeError : Error {
  using Error::Error;
};
/// Thrown if an op does not accept a dtype, or if two dtypes differ.
struct DTypeError : Error {
  using Error::Error;
};
/// Thrown if a value is out of range, or if a function is called in the wrong state.
struct ValueError : Error {
  using Error::Error;
};
/// Thrown if a number is NaN or infinite but must be finite.
struct NumericError : Error {
  using Error::Error;
};
/// Thrown if a file cannot be read or written, or if its contents are invalid. Also thrown if the
/// system cannot start a thread.
struct IoError : Error {
  using Error::Error;
};

}  // namespace heed::autograd

// The helpers below are in namespace heed, so that `using namespace heed::autograd` does not import
// their names. All of heed's source files are inside namespace heed.
namespace heed {

///@{
/// Appends a value to an error's text. A double is written with six significant digits. Other
/// types, such as DType and Shape, have an append_text() in their own namespace.
void append_text(std::string& out, char c);
void append_text(std::string& out, double value);
template <std::integral T>
void append_text(std::string& out, T value) {
  out += std::to_string(value);
}
///@}

/// One part of an error's text: an argument of check() or fail(). A Part stores only a reference,
/// which append_to() converts to text. A check that succeeds therefore formats nothing.
class Part {
 public:
  ///@{
  /// Creates a Part that refers to a text, or to a value whose type has an append_text(). The
  /// argument must outlive the Part.
  Part(std::string_view text) : text_(text) {}
  template <class T>
  requires(!std::is_convertible_v<const T&, std::string_view>) Part(const T& value)
      : value_(&value), append_([](std::string& out, const void* part) {
          append_text(out, *static_cast<const T*>(part));
        }) {}
  ///@}
  /// Appends the text or the formatted value to `out`.
  void append_to(std::string& out) const;

 private:
  std::string_view text_;
  const void* value_ = nullptr;
  void (*append_)(std::string& out, const void* value) = nullptr;  // null if the part is a text
};

/// Returns `op`, a colon, a space and the texts of all parts, without separators between the parts.
std::string error_text(std::string_view op, std::initializer_list<Part> parts);

/// Throws an E with the text error_text(op, {parts...}).
template <class E = autograd::ShapeError, class... Parts>
[[noreturn]] void fail(std::string_view op, const Parts&... parts) {
  throw E(error_text(op, {Part(parts)...}));
}

/// Throws an E with the text error_text(op, {parts...}) if `ok` is false.
template <class E = autograd::ShapeError, class... Parts>
void check(bool ok, std::string_view op, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail<E>(op, parts...);
}

}  // namespace heed
