// Includes Catch2, version 2 (Debian 12) or 3 (Debian 13), and the headers of the standard library
// that most tests use. This header is precompiled.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
inline auto Contains(const std::string& text) { return Catch::Matchers::ContainsSubstring(text); }
#else
#include <catch2/catch.hpp>
using Catch::Matchers::Contains;
#endif

/// True under AddressSanitizer or ThreadSanitizer. Tests then take 20 times as long, so some loops
/// repeat a check fewer times.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Returns `condition`. If it is true, prints that the rest of the test is skipped, and why;
/// tools/test lists these reasons: if (skips(kSanitized, "takes minutes with a sanitizer")) return;
inline bool skips(bool condition, const std::string& why) {
  if (condition) WARN("skipped: " << why);
  return condition;
}

/// Calls f(). Returns the message of the exception of class E that f throws, or "" if f throws
/// nothing. Exceptions of other classes propagate.
template <class E = std::exception, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return {};
}

/// Checks that `expression` throws an exception of class `type` with the message `text`.
#define CHECK_ERROR(type, expression, text) \
  CHECK(message_of<type>([&] { static_cast<void>(expression); }) == (text))
