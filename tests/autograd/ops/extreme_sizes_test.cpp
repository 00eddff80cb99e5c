// Tests of ops whose arguments are whole numbers, with values near the ends of the range of int64.
// Each call equals the same call with an ordinary value, or throws an error of heed. With
// sanitizers, the test also finds overflows.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;

constexpr Index kMost = std::numeric_limits<Index>::max();
constexpr Index kLeast = std::numeric_limits<Index>::min();
const std::vector<Index> kExtremes = {kLeast,    kLeast + 1, kLeast / 2, -1'000,
                                      kMost / 2, kMost - 3,  kMost - 1,  kMost};

// Returns a value that is ordinary and has the same meaning for axes of up to 100 elements.
Index ordinary(Index x) { return std::clamp<Index>(x, -1'000, 1'000); }

void check_equal(const Tensor& y, const Tensor& expected) {
  CHECK(y.shape() == expected.shape());
  CHECK(values(y) == values(expected));
}

TEST_CASE("extreme bounds and steps equal bounds and steps beyond the axis") {
  const Tensor x = reshape(arange(0, 12, 1, float64), {3, 4}).requires_grad_();
  const auto gradient = [&](const Tensor& y) { return grad(sum(y * y), x); };
  for (const Index n : kExtremes) {
    CAPTURE(n);
    const Index m = ordinary(n);
    check_equal(slice(x, 1, n, 4), slice(x, 1, m, 4));
    check_equal(slice(x, 1, 1, n), slice(x, 1, 1, m));
    check_equal(tril(x, n), tril(x, m));
    check_equal(triu(x, n), triu(x, m));
    check_equal(tril_mask(3, 3, n), tril_mask(3, 3, m));
    if (n < 1) continue;
    check_equal(slice(x, 1, 1, 4, n), slice(x, 1, 1, 4, m));
    check_equal(gradient(slice(x, 1, 1, 4, n)), gradient(slice(x, 1, 1, 4, m)));
    check_equal(split(x, n, 1)[0], x);
    CHECK(chunk(x, n, 1).size() == 4);
    check_equal(KeepMask::sliding_window(3, 4, n).tensor(),
                KeepMask::sliding_window(3, 4, m).tensor());
    const Tensor q = reshape(x, {1, 1, 3, 4});
    for (const bool causal : {false, true})
      check_equal(attention(q, q, q, {.causal = causal, .window = n}),
                  attention(q, q, q, {.causal = causal, .window = m}));
  }
}

TEST_CASE("extreme axes, indices, sizes and offsets are errors") {
  const Tensor x = ones({3, 4}, float64);
  const Tensor q = ones({1, 1, 3, 4}, float64);
  for (const Index n : kExtremes) {
    CAPTURE(n);
    CHECK_THROWS_AS(sum(x, {n}), Error);
    CHECK_THROWS_AS(softmax(x, n), Error);
    CHECK_THROWS_AS(transpose(x, n, 0), Error);
    CHECK_THROWS_AS(unsqueeze(x, n), Error);
    CHECK_THROWS_AS(flatten(x, n), Error);
    CHECK_THROWS_AS(select(x, 0, n), Error);
    CHECK_THROWS_AS(flip(x, n), Error);
    CHECK_THROWS_AS(cat({x, x}, n), Error);
    CHECK_THROWS_AS(reshape(x, {n, 4}), Error);
    CHECK_THROWS_AS(expand(x, {n, 4}), Error);
    CHECK_THROWS_AS(expand(ones({1, 4}), {n, 4}), Error);
    CHECK_THROWS_AS(reshape(x, {-1, n, 4}), Error);
    CHECK_THROWS_AS(rope(q, {.offset = n}), Error);
    CHECK_THROWS_AS(index_select(x, 0, from_data(std::vector{n}, {1})), Error);
    CHECK_THROWS_AS(gather(x, 0, from_data(std::vector{n, n}, {1, 2})), Error);
    CHECK_THROWS_AS(cross_entropy(x, from_data(std::vector{n, n, n}, {3})), Error);
    CHECK_THROWS_AS(zeros({n, 4}, float64), Error);
    CHECK_THROWS_AS(eye(n, 4), Error);
    CHECK_THROWS_AS(KeepMask::padding(std::vector{n}, 4), Error);
    if (n > 0) CHECK_THROWS_AS(arange(n), Error);
    if (n > 0) CHECK_THROWS_AS(randperm(n), Error);
  }
}

TEST_CASE("a soft cap that the dtype rounds to 0 is an error") {
  const Tensor q = ones({1, 1, 3, 4}, float32);
  CHECK_THROWS_WITH(attention(q, q, q, {.soft_cap = 1e-50}),
                    Contains("soft_cap 1e-50 is rounded to 0 in float32"));
  CHECK_NOTHROW(attention(q, q, q, {.soft_cap = 1e-37}));
  CHECK_NOTHROW(attention(to(q, float64), to(q, float64), to(q, float64), {.soft_cap = 1e-300}));
}

}  // namespace
