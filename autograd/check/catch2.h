// For a test with Catch2, 2 or 3: CHECK_THAT(check_vjp(forward, backward, x), IsRightGradient()).
// Opt-in: no other header of heed includes it, nor Catch2.
#pragma once

#if __has_include(<catch2/matchers/catch_matchers.hpp>)
#include <catch2/catch_test_macros.hpp>
#include <catch2/catch_tostring.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#elif __has_include(<catch2/catch.hpp>)
#include <catch2/catch.hpp>
#else
#error "autograd/check/catch2.h needs Catch2, 2 or 3, in the include path"
#endif
#include <string>

#include "autograd/check/check_vjp.h"

namespace heed::autograd {

#if __has_include(<catch2/matchers/catch_matchers.hpp>)
using ReportMatcher = Catch::Matchers::MatcherBase<CheckReport>;
#else
using ReportMatcher = Catch::Matchers::Impl::MatcherBase<CheckReport>;
#endif

/// Matches a report whose verdict is kRight. Catch2 prints the report beside it.
struct RightGradientMatcher : ReportMatcher {
  bool match(const CheckReport& report) const override { return report.ok(); }
  std::string describe() const override { return "is a right gradient"; }
};
inline RightGradientMatcher IsRightGradient() { return {}; }

}  // namespace heed::autograd
