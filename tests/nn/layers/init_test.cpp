// Tests of nn::init: strides and errors. config_test.cpp tests the standard deviations.
// torch_random_test.cpp compares the drawn numbers with PyTorch.
#include "nn/layers/init.h"

#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;

Tensor leaf(const Shape& shape, DType dtype = float32) {
  return full(shape, -7, dtype).requires_grad_();
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

TEST_CASE("initializers throw for invalid arguments and draw nothing") {
  Generator g(3), untouched(3);
  CHECK_THROWS_WITH(init::xavier_uniform(leaf({5}), g),
                    "xavier_uniform: needs a matrix [out, in], got [5]");
  CHECK_THROWS_AS(init::linear(leaf({}), {}, g), ShapeError);
  CHECK_THROWS_AS(init::normal(zeros({2}, int64), 0, 1, g), DTypeError);
  CHECK_THROWS_AS(init::uniform(leaf({2}), 1, 0, g), ValueError);
  CHECK_THROWS_AS(init::gpt2({}, 0, g), ValueError);
  CHECK(g.next_u64() == untouched.next_u64());
  CHECK_THROWS_AS(init::ones(leaf({2}) * 2.0), ValueError);
  init::linear(leaf({4, 0}), {}, g);  // with 0 inputs, it draws nothing and does not divide by 0
}

}  // namespace
