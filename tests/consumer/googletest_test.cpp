// A user's test that calls check_vjp of the installed package, with GoogleTest. The test of the
// wrong gradient must fail.
#include "autograd/check/googletest.h"

#include "cubes.h"

using heed::autograd::check_vjp;
using heed::autograd::RightGradient;

TEST(cubes, right) { EXPECT_TRUE(RightGradient(check_vjp(cubes, cubes_backward, kPoint))); }
TEST(cubes, wrong) { EXPECT_TRUE(RightGradient(check_vjp(cubes, wrong_backward, kPoint))); }
