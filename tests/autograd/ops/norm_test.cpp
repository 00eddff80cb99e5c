// Tests of layer_norm and rms_norm: several axes, edge cases, errors. accumulation_test.cpp
// compares rows of any size with formulas in long double.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;
using Values = std::vector<double>;

TEST_CASE("layer_norm over several axes equals layer_norm over them as one") {
  Generator g(3);
  const Tensor x = randn({4, 3, 5, 2}, float64, g) * 3.0 + 5.0;
  const Tensor weight = randn({3, 5, 2}, float64, g), bias = randn({3, 5, 2}, float64, g);
  const Tensor rows = reshape(x, {4, 30});
  const auto flat = [](const Tensor& t) { return reshape(t, -1); };
  CHECK(values(layer_norm(x, {3, 5, 2}, weight, bias, 0.1)) ==
        values(layer_norm(rows, flat(weight), flat(bias), 0.1)));
  CHECK(values(layer_norm(x, {3, 5, 2})) == values(layer_norm(rows, 30)));
  CHECK(values(layer_norm(rows, Tensor(), {})) == values(layer_norm(rows, Tensor(), {}, 1e-5)));
  CHECK(values(rms_norm(rows, {})) == values(rms_norm(rows, {}, 1e-5)));
  const Tensor w = randn({2}, float64, g);
  CHECK(values(layer_norm(x, 2, w)) == values(layer_norm(x, w, {})));
  CHECK_THROWS_WITH(layer_norm(x, {5, 3}),
                    "layer_norm: needs a normalized_shape that equals the last sizes of x, at "
                    "least one, got x [4, 3, 5, 2] and "
                    "normalized_shape [5, 3]");
  CHECK_THROWS_AS(layer_norm(x, Shape()), ShapeError);
  CHECK_THROWS_AS(layer_norm(tensor(1), 1), ShapeError);
  CHECK_THROWS_WITH(layer_norm(x, {5, 2}, ones({10}, float64)),
                    "layer_norm: needs weight and bias of normalized_shape [5, 2], got [10]");
}

TEST_CASE("norms of rows with one value are the bias, or the weight with a sign") {
  const Tensor bias = tensor({0.25}, float64).requires_grad_();
  const Tensor weight = tensor({3}, float64).requires_grad_();
  const Tensor x = reshape(tensor({2, -5}, float64), {2, 1}).requires_grad_();
  const Tensor y = layer_norm(x, weight, bias);
  CHECK(values(y) == Values{0.25, 0.25});
  const auto d = grad(sum(y), {x, weight, bias});
  CHECK(values(d[0]) == Values{0, 0});
  CHECK(values(d[1]) == Values{0});
  CHECK(values(d[2]) == Values{2});
  CHECK(error(values(rms_norm(x, weight, 0)), {3, -3}) <= 1e-15);
}

TEST_CASE("norm errors name the shapes") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_WITH(layer_norm(tensor(1), Tensor(), {}),
                    "layer_norm: needs x [..., D], got a scalar []");
  CHECK_THROWS_WITH(layer_norm(x, ones({4}), {}),
                    "layer_norm: needs x [..., D] and weight [D], got [2, 3] and [4]");
  CHECK_THROWS_WITH(layer_norm(x, Tensor(), ones({1, 3})),
                    "layer_norm: needs x [..., D] and bias [D], got [2, 3] and [1, 3]");
  CHECK_ERROR(ShapeError, rms_norm(x, ones({2})),
              "rms_norm: needs x [..., D] and weight [D], got [2, 3] and [2]");
  CHECK_THROWS_WITH(rms_norm(x, {}, -1), "rms_norm: needs eps >= 0, got -1");
  CHECK_THROWS_AS(layer_norm(x, {}, {}, std::nan("")), ValueError);
  CHECK_THROWS_WITH(
      layer_norm(x, ones({3}, float64), {}),
      "layer_norm: dtypes differ: float32 and float64; convert one with to(x, dtype)");
  CHECK_THROWS_WITH(rms_norm(ones({2, 3}, int64), {}),
                    "rms_norm: needs float32 or float64, got int64");
}

}  // namespace
