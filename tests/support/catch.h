// Catch2, version 2 (Debian 12) or 3 (Debian 13), under one name.
#pragma once

#include <string>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
inline auto Contains(const std::string& text) { return Catch::Matchers::ContainsSubstring(text); }
#else
#include <catch2/catch.hpp>
using Catch::Matchers::Contains;
#endif

/// Under AddressSanitizer or ThreadSanitizer tests take 20 times as long: there, loops that only
/// repeat are cut short.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
