// Tests of create_graph, hvp, jacobian and jvp, and of such derivatives inside each other.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;

TEST_CASE("hvp, jacobian and jvp have their closed forms") {
  const Tensor x = tensor({1, 2, 3}, float64), v = tensor({1, -1, 2}, float64);
  const auto f = [](const Tensor& t) { return sum(t * t * t); };  // the Hessian is diag(6 x)
  CHECK(values(hvp(f, x, v)) == V{6, -12, 36});
  CHECK(values(hvp([](const Tensor& t) { return sum(t); }, x, v)) == V{0, 0, 0});
  CHECK_THROWS_WITH(hvp(f, x, ones({1}, float64)),
                    "hvp: input 0 has shape [3], its v has shape [1]; needs equal shapes");
  const Tensor a = tensor({{1, 2, 3}, {4, 5, 6}}, float64);
  const Tensor j = jacobian([&](const Tensor& t) { return matmul(a, t * t); }, x);  // 2 a_ij x_j
  CHECK(j.shape() == Shape{2, 3});
  CHECK(values(j) == V{2, 8, 18, 8, 20, 36});
  const Tensor p = leaf({1, 2, 3}), moved = jvp(matmul(a, p * p), p, v);  // j v
  CHECK(values(moved) == V{30, 60});
  CHECK(!moved.requires_grad());
  CHECK(jacobian([](const Tensor& t) { return t * t; }, ones({2, 2}, float64)).shape() ==
        Shape{2, 2, 2, 2});
}

TEST_CASE("hvp and jacobian take several tensors") {
  const std::vector<Tensor> at{tensor({1, 2}, float64), tensor({3, 5}, float64),
                               tensor({7}, float64)};
  // The Hessian of f(a, b, c) = sum(a^2 b) + c in each pair (a_i, b_i) is [[2 b_i, 2 a_i], [2 a_i,
  // 0]]. All other entries are 0.
  const auto f = [](Args t) { return sum(t[0] * t[0] * t[1]) + sum(t[2]); };
  const std::vector<Tensor> v{tensor({1, -1}, float64), tensor({2, 0}, float64),
                              tensor({4}, float64)};
  const std::vector<Tensor> h = hvp(f, at, v);
  REQUIRE(h.size() == 3);
  CHECK(values(h[0]) == V{10, -10});
  CHECK(values(h[1]) == V{2, -4});
  CHECK(values(h[2]) == V{0});
  CHECK_THROWS_WITH(hvp(f, at, std::vector{v[0]}), "hvp: needs a v per input, got 1 for 3");

  const std::vector<Tensor> j = jacobian([](Args t) { return t[0] * t[1]; }, at);
  REQUIRE(j.size() == 3);
  CHECK(values(j[0]) == V{3, 0, 0, 5});
  CHECK(values(j[1]) == V{1, 0, 0, 2});
  CHECK(j[2].shape() == Shape{2, 1});
  CHECK(values(j[2]) == V{0, 0});
  const std::vector<Tensor> none = jacobian([](Args) { return ones({2}, float64); }, at);
  CHECK(values(none[0]) == V{0, 0, 0, 0});
}

}  // namespace
