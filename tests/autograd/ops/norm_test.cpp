// Tests of layer_norm and rms_norm: values and gradients of PyTorch, edge cases, errors.
// accumulation_test.cpp compares rows of any size with formulas in long double.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;
using Values = std::vector<double>;

// Inputs x, weight and bias, and g, the gradient of the output. The values from PyTorch below are
// for these inputs.
struct Example {
  Tensor x = tensor({{1, 2, 4, -3}, {0.5, -1.5, 2.5, 0.25}}, float64).requires_grad_();
  Tensor weight = tensor({0.5, -1, 2, 1.5}, float64).requires_grad_();
  Tensor bias = tensor({0.1, 0.2, -0.3, 0.4}, float64).requires_grad_();
  Tensor g = tensor({{1, -2, 0.5, 3}, {-1, 0.25, 2, -0.5}}, float64);
};

TEST_CASE("layer_norm over several axes equals layer_norm over them as one") {
  Generator g(3);
  const Tensor x = randn({4, 3, 5, 2}, float64, g) * 3.0 + 5.0;
  const Tensor weight = randn({3, 5, 2}, float64, g), bias = randn({3, 5, 2}, float64, g);
  const Tensor rows = reshape(x, {4, 30});
  const auto flat = [](const Tensor& t) { return reshape(t, -1); };
  CHECK(values(layer_norm(x, {3, 5, 2}, weight, bias, 0.1)) ==
        values(layer_norm(rows, flat(weight), flat(bias), 0.1)));
  CHECK(values(layer_norm(x, {3, 5, 2})) == values(layer_norm(rows, 30)));
  const Tensor w = randn({2}, float64, g);
  CHECK(values(layer_norm(x, 2, w)) == values(layer_norm(x, w, {})));
  CHECK_THROWS_WITH(layer_norm(x, {5, 3}),
                    "layer_norm: normalizes over the last axes of x, got [4, 3, 5, 2] and "
                    "normalized_shape [5, 3]");
  CHECK_THROWS_AS(layer_norm(x, Shape()), ShapeError);
  CHECK_THROWS_AS(layer_norm(tensor(1), 1), ShapeError);
  CHECK_THROWS_WITH(layer_norm(x, {5, 2}, ones({10}, float64)),
                    "layer_norm: needs weight and bias of normalized_shape [5, 2], got [10]");
}

// The numbers are from PyTorch 2.15.0 on the CPU in float64: F.layer_norm or F.rms_norm(x, (4,),
// ..., eps = 1e-5) and torch.autograd.grad(y, inputs, g).
TEST_CASE("layer_norm has PyTorch's values and gradients") {
  const Example e;
  const Tensor y = layer_norm(e.x, e.weight, e.bias);
  CHECK(error(values(y), {0.1, -0.19223196855958524, 2.053391811357512, -1.9533918113575115,
                          0.1220325777014482, 1.5660198174897864, 2.6083002565911584,
                          0.20170680068696656}) <= 1e-14);
  for (const bool create_graph : {true, false}) {  // true: definition, false: kernel
    const auto d =
        grad(y, {e.x, e.weight, e.bias}, {.grad_output = e.g, .create_graph = create_graph});
    CHECK(error(values(d[0]), {-0.5883479528393779, 0.19611568256335787, 0.19611507913048865,
                               0.1961171911455315, -0.8416014457583461, 0.8843759280520215,
                               0.7813729910514078, -0.8241474733450836}) <= 1e-14);
    CHECK(error(values(d[1]), {-0.04406515540289635, -1.125968891491617, 3.496648209430536,
                               -4.640685889610679}) <= 1e-14);
    CHECK(error(values(d[2]), {0, -1.75, 2.5, 2.5}) <= 1e-14);
  }
}

TEST_CASE("rms_norm has PyTorch's values and gradients") {
  const Example e;
  const Tensor y = rms_norm(e.x, e.weight);
  CHECK(error(values(y), {0.1825740641190532, -0.7302962564762128, 2.921185025904851,
                          -1.6431665770714787, 0.16843000196125082, 1.010580011767505,
                          3.3686000392250164, 0.25264500294187625}) <= 1e-14);
  for (const bool create_graph : {true, false}) {
    const auto d = grad(y, {e.x, e.weight}, {.grad_output = e.g, .create_graph = create_graph});
    CHECK(error(values(d[0]), {0.2434320043481506, 0.8520121369344076, 0.608579889154496,
                               1.4605927563841865, -0.7167216884061873, 0.9711550514898064,
                               0.7955716089615845, -0.6952208481255954}) <= 1e-14);
    CHECK(error(values(d[1]), {0.028288124315604735, -1.7132375158943018, 4.098896295701229,
                               -3.3705481551235827}) <= 1e-14);
  }
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
