// A user's test that calls check_vjp of the installed package, with Catch2. The test "wrong" must
// fail.
#include "autograd/check/catch2.h"

#include "softmax.h"

using heed::autograd::check_vjp;
using heed::autograd::IsRightGradient;

TEST_CASE("right") { CHECK_THAT(check_vjp(softmax, softmax_backward, kPoint), IsRightGradient()); }
TEST_CASE("wrong") { CHECK_THAT(check_vjp(softmax, wrong_backward, kPoint), IsRightGradient()); }
