// Tests of create_graph, hvp, jacobian and jvp, and of such derivatives inside each other.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;

TEST_CASE("create_graph differentiates again and again") {
  const Tensor x = leaf({2});
  Tensor y = pow(x, 5);
  V derivatives;
  for (int order = 1; order <= 4; ++order) {
    y = sum(grad(sum(y), {x}, {.create_graph = true})[0]);
    derivatives.push_back(y.item());
  }
  CHECK(derivatives == V{80, 160, 240, 240});  // 5x^4, 20x^3, 60x^2, 120x at x = 2
  // The derivative of gelu is an op of its own. gelu'''(x) is phi(x) x (x^2 - 4), where phi is the
  // normal density.
  const double t = 0.7, phi = std::exp(-t * t / 2) / std::sqrt(2 * std::acos(-1.0));
  const Tensor u = leaf({t});
  Tensor g = gelu(u);
  for (int order = 1; order <= 3; ++order) g = grad(g, {u}, {.create_graph = true})[0];
  CHECK(g.item() == Approx(phi * t * (t * t - 4)).epsilon(1e-12));
}

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
  CHECK(jacobian([](const Tensor& t) { return t * t; }, ones({2, 2}, float64)).shape() ==
        Shape{2, 2, 2, 2});
  const JvpResult r = jvp([](Args t) { return t[0] * t[1]; }, std::vector{x, v}, std::vector{v, x});
  CHECK(values(r.value) == V{1, -2, 6});
  CHECK(values(r.tangent) == V{2, 5, 13});  // x dv + v dx = x^2 + v^2
  CHECK_THROWS_WITH(
      jvp([](Args t) { return t[0]; }, std::vector{x}, std::vector{ones({2}, float64)}),
      "jvp: input 0 has shape [3], its tangent has shape [2]; needs equal shapes");
  CHECK_THROWS_WITH(
      jvp([](Args t) { return t[0]; }, std::vector{ones({1})}, std::vector{ones({1})}),
      "jvp: needs float64 inputs and tangents, got float32 and float32");
}

TEST_CASE("grad of one tensor is one tensor") {
  const Tensor w = tensor({1, 2}).requires_grad_();
  const Tensor y = sum(w * w);
  CHECK(values(grad(y, w, {.retain_graph = true})) == std::vector<double>{2, 4});
  CHECK(values(grad(y, {w})[0]) == std::vector<double>{2, 4});
  CHECK_THROWS_AS(grad(sum(w), tensor(1)), ValueError);
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

TEST_CASE("grad inside jvp is a Hessian-vector product, also for fused ops") {
  const Tensor x = randn({2, 3}, float64), v = randn({2, 3}, float64);
  const Tensor w = randn({4, 3}, float64), b = randn({4}, float64), g = randn({2, 4}, float64);
  for (const bool explicit_cotangent : {false, true}) {
    const auto f = [&](const Tensor& t) {
      const Tensor y = linear(layer_norm(gelu(t), 3), w, b);
      return explicit_cotangent ? y : sum(y * g);
    };
    const auto gradient = [&](Args t) {
      const Tensor at = t[0].detach().requires_grad_();
      GradOptions options;
      if (explicit_cotangent) options.grad_output = g;
      return grad(f(at), {at}, options)[0];
    };
    const Tensor forward_over_reverse = jvp(gradient, std::vector{x}, std::vector{v}).tangent;
    const Tensor reverse_over_reverse =
        hvp([&](const Tensor& t) { return explicit_cotangent ? sum(f(t) * g) : f(t); }, x, v);
    CHECK(allclose(forward_over_reverse, reverse_over_reverse, 1e-10, 1e-10));
  }
}

TEST_CASE("the result of jvp inside a recorded function is a constant of its graph") {
  const Tensor x = leaf({2, 3});
  const Tensor t =
      jvp([](Args a) { return a[0] * a[0]; }, std::vector{x}, std::vector{ones({2}, float64)})
          .tangent;
  CHECK(!t.requires_grad());
  CHECK(values(t) == V{4, 6});
  CHECK(values(grad(sum(x * t), x)) == V{4, 6});
  CHECK(grad_enabled());
}
}  // namespace
