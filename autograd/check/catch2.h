// Matcher for Catch2, version 2 or 3:
//   CHECK_THAT(check_vjp(forward, backward, x), IsRightGradient());
// No other header of heed includes this file, so heed does not need Catch2.
#pragma once

#if __has_include(<catch2/matchers/catch_matchers.hpp>)
#include <catch2/catch_test_macros.hpp>
#include <catch2/catch_tostring.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#elif __has_include(<catch2/catch.hpp>)
#include <catch2/catch.hpp>
#else
#error "autograd/check/catch2.h needs Catch2, version 2 or 3, in the include path"
#endif
#include <string>

#include "autograd/check/check_vjp.h"

namespace heed::autograd {

#if __has_include(<catch2/matchers/catch_matchers.hpp>)
/// Base class of a Catch2 matcher for reports. Its name differs between versions 2 and 3.
using ReportMatcher = Catch::Matchers::MatcherBase<CheckReport>;
#else
/// Base class of a Catch2 matcher for reports. Its name differs between versions 2 and 3.
using ReportMatcher = Catch::Matchers::Impl::MatcherBase<CheckReport>;
#endif

/// Matches a report whose verdict is kRight. If the report does not match, Catch2 prints it.
struct RightGradientMatcher : ReportMatcher {
  /// Returns true if the verdict is kRight.
  bool match(const CheckReport& report) const override { return report.ok(); }
  /// Returns the text that Catch2 prints after the report.
  std::string describe() const override { return "is a right gradient"; }
};
/// Returns the matcher, for CHECK_THAT and REQUIRE_THAT.
inline RightGradientMatcher IsRightGradient() { return {}; }

}  // namespace heed::autograd
