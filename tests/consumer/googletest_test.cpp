// A user's test that calls check_vjp of the installed package, with GoogleTest. The test of the
// wrong gradient must fail.
#include <gtest/gtest.h>

#include "autograd/check/check_vjp.h"
#include "softmax.h"

using namespace heed::autograd;

TEST(softmax, right) { EXPECT_TRUE(check_vjp(softmax, softmax_backward, kPoint)); }
TEST(softmax, wrong) {
  const CheckReport report = check_vjp(softmax, wrong_backward, kPoint);
  EXPECT_TRUE(report) << report;
}
