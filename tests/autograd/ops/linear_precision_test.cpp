// Tests of linear() with MatmulPrecision: which of its matrix products have rounded operands, and
// when.
#include "autograd/autograd.h"
#include "autograd/check/float32.h"
#include "autograd/kernels/simd/gemm_bf16.h"
#include "tests/support/bf16_ways.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using testing::for_each_bf16_way;
using testing::OnBf16Way;

using Floats = std::vector<float>;

Tensor rounded(const Tensor& x) {
  Floats values = x.detach().to_vector<float>();
  for (float& v : values) v = kernels::rounded_to_bfloat16(v);
  return from_data(values, x.shape());
}

struct Operands {
  Generator random{4};
  Tensor x = randn({9, 40}, float32, random).requires_grad_();
  Tensor w = randn({20, 40}, float32, random).requires_grad_();
  Tensor b = randn({20}, float32, random).requires_grad_();
  Tensor g = randn({9, 20}, float32, random);
};

using Results = std::array<Floats, 4>;  // y, dx, dw, db

// Returns y, which the caller has computed from x, w and b, and the gradients of x, w and b.
Results results_of(const Operands& o, const Tensor& y, bool create_graph = false) {
  const auto grads = grad(y, {o.x, o.w, o.b},
                          {.grad_output = o.g, .create_graph = create_graph, .retain_graph = true});
  Results all{y.detach().to_vector<float>()};
  for (std::size_t i = 0; i < 3; ++i) all[i + 1] = grads[i].detach().to_vector<float>();
  return all;
}

Results in_float32(const Operands& o) { return results_of(o, linear(o.x, o.w, o.b)); }

Tensor in_bfloat16(const Operands& o) {
  const MatmulPrecision precision(Precision::kBfloat16);
  return linear(o.x, o.w, o.b);
}

TEST_CASE("all three products of linear have rounded operands; the bias is not rounded") {
  const OnBf16Way definition("portable");
  const Operands o;
  Operands r;
  r.x = rounded(o.x).requires_grad_(), r.w = rounded(o.w).requires_grad_(), r.g = rounded(o.g);
  const Results got = results_of(o, in_bfloat16(o)), want = in_float32(r);
  for (std::size_t i = 0; i < 3; ++i) CHECK(got[i] == want[i]);
  CHECK(got[3] == in_float32(o)[3]);
  CHECK(got[0] != in_float32(o)[0]);
}

TEST_CASE("a backward pass has the precision of its forward pass, wherever it runs") {
  const Operands o;
  const Tensor rounded_y = in_bfloat16(o), y = linear(o.x, o.w, o.b);
  const Results outside = results_of(o, rounded_y), whole = in_float32(o);
  CHECK(outside[1] != whole[1]);
  CHECK(outside[2] != whole[2]);
  const MatmulPrecision precision(Precision::kBfloat16);
  CHECK(results_of(o, rounded_y) == outside);
  CHECK(results_of(o, y) == whole);
}

TEST_CASE("a precision ends with its scope, also on an exception") {
  const Operands o;
  const Floats whole = in_float32(o)[0], lower = in_bfloat16(o).detach().to_vector<float>();
  const auto now = [&] { return linear(o.x, o.w, o.b).detach().to_vector<float>(); };
  CHECK(whole != lower);
  {
    const MatmulPrecision outer(Precision::kBfloat16);
    {
      const MatmulPrecision inner(Precision::kFloat32);
      CHECK(now() == whole);
    }
    CHECK(now() == lower);
    try {
      const MatmulPrecision inner(Precision::kFloat32);
      linear(o.x, o.b);
    } catch (const Error&) {
    }
    CHECK(now() == lower);
  }
  CHECK(now() == whole);
}

TEST_CASE("float64, matmul and gradients that are differentiated are never rounded") {
  const Operands o;
  const Tensor x = to(o.x.detach(), float64), w = to(o.w.detach(), float64);
  const Tensor y = linear(x, w), p = matmul(o.x, mT(o.w));
  const Results whole = results_of(o, linear(o.x, o.w, o.b), true);
  const Tensor lower = in_bfloat16(o);
  const MatmulPrecision precision(Precision::kBfloat16);
  CHECK(linear(x, w).to_vector<double>() == y.to_vector<double>());
  CHECK(matmul(o.x, mT(o.w)).detach().to_vector<float>() == p.detach().to_vector<float>());
  const Results differentiable = results_of(o, lower, true);
  for (std::size_t i = 1; i < 4; ++i) CHECK(differentiable[i] == whole[i]);
}

// Two linear layers. Each layer rounds its operands and the gradient of its output to bfloat16.
Tensor two_layers(Args t) {
  const MatmulPrecision precision(Precision::kBfloat16);
  return linear(gelu(linear(t[0], t[1], t[2])), t[3]);
}

TEST_CASE("check_float32 has a bound for every bfloat16 kernel and reports errors above it") {
  Generator random(5);
  const std::vector<Tensor> inputs{randn({7, 24}, float64, random),
                                   randn({18, 24}, float64, random), randn({18}, float64, random),
                                   randn({6, 18}, float64, random)};
  for_each_bf16_way([&] {
    const Float32Report r = check_float32(two_layers, inputs, {kernels::simd_targets()[0]}, 1)[0];
    CAPTURE(r.message, r.worst);
    CHECK(r.ok);
    CHECK(r.worst > 0.05);  // error / bound: the bound must not be much too wide
  });
  const auto with_error = [](Args t) {  // a relative error of 1/8 in an operand, only in float32
    return two_layers(std::array{t[0].dtype() == float32 ? t[0] * 1.125 : t[0], t[1], t[2], t[3]});
  };
  CHECK(!check_float32(with_error, inputs, {kernels::simd_targets()[0]}, 1)[0].ok);
  const auto in_float32_only = [](Args t) { return linear(gelu(linear(t[0], t[1], t[2])), t[3]); };
  const Float32Report exact =
      check_float32(in_float32_only, inputs, {kernels::simd_targets()[0]}, 1)[0];
  CHECK(exact.ok);
}

}  // namespace
