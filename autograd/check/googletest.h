// For a test with GoogleTest: EXPECT_TRUE(RightGradient(check_vjp(forward, backward, x))).
// Opt-in: no other header of heed includes it, nor GoogleTest.
#pragma once

#include <gtest/gtest.h>

#include "autograd/check/check_vjp.h"

namespace heed::autograd {

/// Success if the verdict is kRight; the report is its text either way.
inline testing::AssertionResult RightGradient(const CheckReport& report) {
  return (report.ok() ? testing::AssertionSuccess() : testing::AssertionFailure()) << report;
}

}  // namespace heed::autograd
