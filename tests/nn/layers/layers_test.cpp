// Tests of LayerNorm through the umbrella header nn/nn.h.
#include "nn/nn.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace heed::nn;
using namespace heed::autograd::testing;

TEST_CASE("LayerNorm has weight and bias, only a weight, or neither") {
  const Tensor x = draw({2, 3, 8}, 1);
  const auto names = [](const LayerNorm& norm) {
    std::vector<std::string> list;
    for (const NamedTensor& p : parameters(norm)) list.push_back(p.name);
    return list;
  };
  const LayerNorm whole({.normalized_shape = 8, .dtype = float64});
  CHECK(names(whole) == std::vector<std::string>{"weight", "bias"});
  const LayerNorm weight({.normalized_shape = 8, .bias = false, .dtype = float64});
  CHECK(names(weight) == std::vector<std::string>{"weight"});
  const LayerNorm plain({.normalized_shape = 8, .elementwise_affine = false, .dtype = float64});
  CHECK(names(plain).empty());
  CHECK(same_bits(plain(x), layer_norm(x, Tensor(), Tensor())));
  CHECK(allclose(plain(x), whole(x)));  // the weight of `whole` is 1 and its bias 0
}

TEST_CASE("LayerNorm normalizes over several axes") {
  const LayerNorm norm({.normalized_shape = {4, 8}, .dtype = float64});
  CHECK(norm.weight.shape() == Shape{4, 8});
  const Tensor x = draw({3, 4, 8}, 1), y = norm(x);
  CHECK(allclose(y, reshape(layer_norm(reshape(x, {3, 32}), Tensor(), Tensor()), {3, 4, 8})));
  CHECK_THROWS_AS(norm(draw({3, 8}, 1)), ShapeError);
  const LayerNorm plain({.normalized_shape = 8, .elementwise_affine = false, .dtype = float64});
  CHECK_THROWS_AS(plain(draw({3, 7}, 1)), ShapeError);
  CHECK_THROWS_WITH(LayerNorm({.normalized_shape = {4, 0}}),
                    "LayerNorm: needs normalized_shape > 0, got 0");
  CHECK_THROWS_WITH(LayerNorm({.normalized_shape = {}}),
                    "LayerNorm: needs a normalized_shape of one axis or more, got []");
}

}  // namespace
