// A user's test that calls check_vjp of the installed package, with Catch2. The test "wrong" must
// fail.
#if __has_include(<catch2/catch_test_macros.hpp>)  // version 3
#include <catch2/catch_test_macros.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include "autograd/check/check_vjp.h"
#include "softmax.h"

using heed::autograd::check_vjp;

TEST_CASE("right") { CHECK(check_vjp(softmax, softmax_backward, kPoint)); }
TEST_CASE("wrong") { CHECK(check_vjp(softmax, wrong_backward, kPoint)); }
