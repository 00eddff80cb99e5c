// Assertion for GoogleTest:
//   EXPECT_TRUE(RightGradient(check_vjp(forward, backward, x)));
// No other header of heed includes this file, so heed does not need GoogleTest.
#pragma once

#include <gtest/gtest.h>

#include "autograd/check/check_vjp.h"

namespace heed::autograd {

/// Returns success if the verdict is kRight, otherwise failure.
/// The message is the report in both cases.
inline testing::AssertionResult RightGradient(const CheckReport& report) {
  return (report.ok() ? testing::AssertionSuccess() : testing::AssertionFailure()) << report;
}

}  // namespace heed::autograd
