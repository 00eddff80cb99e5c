// A user's test that calls check_vjp of the installed package, with GoogleTest. The test of the
// wrong gradient must fail.
#include "autograd/check/googletest.h"

#include "softmax.h"

using heed::autograd::check_vjp;
using heed::autograd::RightGradient;

TEST(softmax, right) { EXPECT_TRUE(RightGradient(check_vjp(softmax, softmax_backward, kPoint))); }
TEST(softmax, wrong) { EXPECT_TRUE(RightGradient(check_vjp(softmax, wrong_backward, kPoint))); }
