// Contains(text), a matcher for substrings, under one name in both versions of Catch2.
#pragma once

#include <string>

#include "tests/catch.h"

#if __has_include(<catch2/catch_all.hpp>)
inline auto Contains(const std::string& text) { return Catch::Matchers::ContainsSubstring(text); }
#else
using Catch::Matchers::Contains;
#endif
