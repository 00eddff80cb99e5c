// Tests of nn::init: strides, fan_in and fan_out, initialization like GPT-2, orthogonal matrices
// and errors. torch_random_test.cpp compares the drawn numbers with PyTorch.
#include "nn/layers/init.h"

#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;

Tensor leaf(const Shape& shape, DType dtype = float32) {
  return full(shape, -7, dtype).requires_grad_();
}

double root_mean_square(const Tensor& x) {
  double sum = 0;
  for (const float v : x.to_vector<float>()) sum += double(v) * v;
  return std::sqrt(sum / double(x.numel()));
}

TEST_CASE("linear draws the same weight with and without a bias, and raises its version") {
  const Tensor weight = leaf({5, 7}), other = leaf({5, 7}), bias = leaf({5});
  Generator g(1), without(1);
  init::linear(weight, bias, g);
  init::linear(other, {}, without);
  CHECK(other.to_vector<float>() == weight.to_vector<float>());
  CHECK(weight.version() == 1);  // so a backward pass that saved older values throws
}

TEST_CASE("a parameter's strides do not change its values") {
  const Tensor rows = leaf({6, 4}), columns = transpose(full({4, 6}, 0), 0, 1);
  Generator g(5), same(5);
  init::uniform(rows, -2, 3, g);
  init::uniform(columns, -2, 3, same);
  CHECK(rows.to_vector<float>() == columns.to_vector<float>());
  for (const float v : rows.to_vector<float>()) CHECK((v >= -2 && v < 3));
}

TEST_CASE("fans count the kernel of a rank-3 parameter") {
  const Tensor x = leaf({400, 3, 7}, float64);
  Generator g(0);
  const auto largest = [&] { return max(abs(x.detach())).item(); };
  init::kaiming_uniform(x, 0, g);  // fan_in is 21: the bound is sqrt(3) sqrt(2) / sqrt(21)
  CHECK(largest() <= std::sqrt(6.0 / 21));
  CHECK(largest() > 0.999 * std::sqrt(6.0 / 21));
  init::xavier_uniform(x, g);  // fan_in is 21 and fan_out is 2800
  CHECK(largest() <= std::sqrt(6.0 / 2821));
  CHECK(largest() > 0.999 * std::sqrt(6.0 / 2821));
}

TEST_CASE("gpt2 scales projections into the stream, and sets biases to 0 and norms to 1") {
  std::vector<NamedTensor> p;
  for (const char* name : {"tok.weight", "blocks.0.qkv.weight", "blocks.0.q_proj_weight",
                           "blocks.0.proj.weight", "blocks.0.down.weight"})
    p.push_back({name, leaf({100, 100})});
  p.push_back({"blocks.0.ln1.weight", leaf({100})});
  p.push_back({"blocks.0.qkv.bias", leaf({100})});
  p.push_back({"blocks.0.in_proj_bias", leaf({3, 100})});
  Generator g(1);
  init::gpt2(p, 8, g);
  for (std::size_t i = 0; i < 3; ++i)  // the standard error for 10,000 values is 0.7 %
    CHECK(root_mean_square(p[i].tensor) == Approx(0.02).epsilon(0.03));
  for (std::size_t i = 3; i < 5; ++i)
    CHECK(root_mean_square(p[i].tensor) == Approx(0.02 / 4).epsilon(0.03));
  CHECK(p[5].tensor.to_vector<float>() == std::vector<float>(100, 1.0f));
  CHECK(p[6].tensor.to_vector<float>() == std::vector<float>(100, 0.0f));
  CHECK(p[7].tensor.to_vector<float>() == std::vector<float>(300, 0.0f));
}

TEST_CASE("orthogonal makes rows or columns orthonormal, with a positive diagonal of R") {
  for (const Shape& shape : {Shape{6, 6}, Shape{40, 7}, Shape{7, 40}}) {
    const Tensor x = leaf(shape, float64), drawn = leaf(shape, float64);
    Generator g(5), same(5);
    init::orthogonal(x, g);
    init::normal(drawn, 0, 1, same);
    CHECK(g.next_u64() == same.next_u64());
    const bool tall = shape[0] > shape[1];
    const Tensor rows = tall ? mT(x) : x, raw = tall ? mT(drawn) : drawn;
    const std::int64_t n = rows.size(0);
    const Tensor unit = matmul(rows, mT(rows)), r = matmul(raw, mT(rows));  // r is R transposed
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        CHECK(std::abs(unit.at({i, j}) - (i == j)) < 1e-12);
        if (j > i) CHECK(std::abs(r.at({i, j})) < 1e-11);
        if (j == i) CHECK(r.at({i, j}) > 0);
      }
  }
}

TEST_CASE("gpt2 does not change vectors that are not the gain of a norm") {
  const Tensor scale = full({3}, 0.25).requires_grad_();
  const std::vector<NamedTensor> p{{"blocks.0.attn.scale", scale}};
  Generator g(1);
  init::gpt2(p, 2, g);
  CHECK(scale.to_vector<float>() == std::vector<float>(3, 0.25f));
}

TEST_CASE("initializers throw for invalid arguments and draw nothing") {
  Generator g(3), untouched(3);
  CHECK_THROWS_WITH(init::xavier_uniform(leaf({5}), g),
                    "xavier_uniform: needs a parameter [out, in, ...], got [5]");
  CHECK_THROWS_AS(init::kaiming_uniform(leaf({}), 0, g), ShapeError);
  CHECK_THROWS_WITH(init::orthogonal(leaf({2, 3, 4}), g),
                    "orthogonal: needs a matrix, got [2, 3, 4]");
  CHECK_THROWS_AS(init::normal(zeros({2}, int64), 0, 1, g), DTypeError);
  CHECK_THROWS_AS(init::uniform(leaf({2}), 1, 0, g), ValueError);
  CHECK_THROWS_AS(init::gpt2({}, 0, g), ValueError);
  CHECK(g.next_u64() == untouched.next_u64());
  CHECK_THROWS_AS(init::ones(leaf({2}) * 2.0), ValueError);
  init::linear(leaf({4, 0}), {}, g);  // with 0 inputs, it draws nothing and does not divide by 0
}

}  // namespace
