// The short numbers printed in the notebooks, here as source; all of them: numbers_test.cpp.
#include "tests/notebooks.h"

#include "tests/catch.h"
#include "tests/layouts.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;

TEST_CASE("notebook 0: causal mask, unscaled weights and output (cells 29, 30, 31)") {
  const Tensor q = f64({{-0.17726915, -0.60715105, 0.27040047, 1.32262995},
                        {-0.35466501, -1.00190095, 0.49971724, 0.52404003}});
  const Tensor k = f64({{1.31088812, 0.03025595, 0.02526448, -0.6110974},
                        {0.03582415, 0.53263921, -0.34596446, 0.67464531}});
  const Tensor v = f64({{0.76514641, -1.69868336, -1.59656269, -0.76914076},
                        {-0.81664305, -0.10608875, -1.38933315, -2.52314108}});
  const Attention r = by_hand(q, k, v, 1, causal_additive({2, 2}));
  CHECK(near(r.pattern, f64({{1, 0}, {0.39241945, 0.60758055}}), 2e-8));
  CHECK(near(r.output,
             f64({{0.76514641, -1.69868336, -1.59656269, -0.76914076},
                  {-0.19591809, -0.73105386, -1.47065405, -1.83483723}}),
             4e-8));
  CHECK(near(attention(q, k, v, {.scale = 1, .causal = true}), r.output, 1e-14));
}

TEST_CASE("notebook 3: self-attention of the sample sentence") {
  const Tensor x = f64({{1, 0, 1, 0}, {0, 1, 0, 1}, {1, 1, 0, 0}});
  const Attention r = by_hand(x, x, x, 0.5);
  CHECK(near(r.pattern,
             f64({{0.5065, 0.1863, 0.3072}, {0.1863, 0.5065, 0.3072}, {0.2741, 0.2741, 0.4519}}),
             5e-5));
  CHECK(near(r.output,
             f64({{0.8137, 0.4935, 0.5065, 0.1863},
                  {0.4935, 0.8137, 0.1863, 0.5065},
                  {0.7259, 0.7259, 0.2741, 0.2741}}),
             5e-5));
  CHECK(near(attention(x, x, x), r.output, 1e-14));
}

TEST_CASE("notebook 4: dot products, saturation with d, the scale that cures it, masks of -1e9") {
  const Notebook4 two(2), eight(8);
  CHECK(matmul(select(two.q, 0, 0), select(two.k, 0, 0)).item() == 4);
  CHECK(matmul(select(two.q, 0, 0), select(two.k, 0, 1)).item() == 2);
  const Attention plain = by_hand(two.q, two.k, two.v, 1),
                  large = by_hand(eight.q, eight.k, eight.v, 1);
  const Attention scaled = by_hand(eight.q, eight.k, eight.v, 1 / std::sqrt(8));
  CHECK(near(plain.pattern, f64({{0.8808, 0.1192}}), 5e-5));
  CHECK(near(plain.output, full({1, 2}, 3.1192, float64), 5e-5));
  CHECK(near(softmax(tensor({2, 1}, float64), 0), tensor({0.7311, 0.2689}, float64), 5e-5));
  CHECK(values(large.scores) == std::vector<double>{16, 8});
  CHECK(near(large.pattern, f64({{0.9997, 0.0003}}), 5e-5));
  CHECK(near(large.output, full({1, 8}, 3.0003, float64), 5e-5));
  CHECK(near(scaled.scores, f64({{5.6569, 2.8284}}), 5e-5));
  CHECK(near(scaled.pattern, f64({{0.9442, 0.0558}}), 5e-5));
  CHECK(near(scaled.output, full({1, 8}, 3.0558, float64), 5e-5));
  const auto masked = [&](double keep_second) {
    const Tensor mask = f64({{keep_second, 0}});
    return softmax(masked_fill(scaled.scores, eq(mask, 0.0), -1e9), -1);
  };
  CHECK(values(masked(1)) == std::vector<double>{1, 0});
  CHECK(values(masked(0)) == std::vector<double>{0.5, 0.5});  // finite: uniform, where -inf gives 0
}

}  // namespace
