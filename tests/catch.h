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
