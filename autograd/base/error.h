// Errors of heed: one hierarchy, one check(). The text is built only when a check fails.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

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

/// Throws E with the text "<op>: <parts...>".
template <class E = ShapeError, class... Parts>
[[noreturn]] void fail(std::string_view op, const Parts&... parts) {
  std::ostringstream text;
  text << op << ": ";
  (text << ... << parts);
  throw E(text.str());
}

/// Throws E with the text "<op>: <parts...>" unless `ok`.
template <class E = ShapeError, class... Parts>
void check(bool ok, std::string_view op, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail<E>(op, parts...);
}

}  // namespace heed::autograd
