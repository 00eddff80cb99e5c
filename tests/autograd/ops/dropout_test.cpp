// Tests of dropout: which elements are kept, the use of the generator, the gradient, edge cases,
// errors.
#include "autograd/autograd.h"
#include "autograd/kernels/reference/philox.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

// Applies dropout to row-major x by the rule in kernels/reference/philox.h, one element at a time.
std::vector<double> reference(const Tensor& x, double p, std::uint64_t key) {
  const kernels::DropoutMask mask(key, p);
  std::vector<double> y = x.to_vector<double>();
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = mask.keep(i) ? y[i] * (1 / (1 - p)) : 0;
  return y;
}

TEST_CASE("dropout keeps element i by Philox(key, i), in any layout") {
  Generator g(1);
  const Tensor x = randn({5, 6, 70}, float64, g);
  for (const double p : {0.1, 0.5, 0.9}) {
    for (const Tensor& in :
         {x, transpose(x, 0, 2), slice(x, 2, 3, 64, 2), flip(x, 1),
          expand(slice(x, 1, 0, 1), {5, 6, 70}), reshape(x, {2100}), select(x, 1, 2)}) {
      Generator drawn(42), same(42);
      const Tensor y = dropout(in, p, drawn);
      CHECK(y.shape() == in.shape());
      CHECK(y.to_vector<double>() == reference(in, p, same.next_u64()));
      CHECK(drawn.next_u32() == same.next_u32());  // only one key was drawn
    }
  }
}

TEST_CASE("dropout with p = 0 returns x and draws nothing; with p = 1 it returns zeros") {
  Generator g(3), untouched(3);
  const Tensor x = tensor({1, std::nan(""), kInf}).requires_grad_();
  CHECK(dropout(x, 0, g).is_same(x));
  CHECK(g.next_u32() == untouched.next_u32());
  const Tensor y = dropout(x, 1, g);
  CHECK(y.to_vector<float>() == std::vector<float>{0, 0, 0});
  CHECK(grad(sum(y), {x})[0].to_vector<float>() == std::vector<float>{0, 0, 0});
  untouched.next_u64();
  CHECK(g.next_u32() == untouched.next_u32());
  CHECK(dropout(empty({2, 0}), 0.5, g).shape() == Shape{2, 0});
}

TEST_CASE("dropout draws from the thread's generator by default, a new mask each time") {
  manual_seed(6);
  const Tensor x = ones({64});
  const auto first = dropout(x, 0.5).to_vector<float>(),
             second = dropout(x, 0.5).to_vector<float>();
  CHECK(first != second);
  manual_seed(6);
  CHECK(dropout(x, 0.5).to_vector<float>() == first);
}

TEST_CASE("dropout errors") {
  Generator g(8), untouched(8);
  CHECK_THROWS_WITH(dropout(ones({2}), 1.5, g),
                    "dropout: needs a probability p in [0, 1], got 1.5");
  CHECK_THROWS_AS(dropout(ones({2}), -0.1, g), ValueError);
  CHECK_THROWS_AS(dropout(ones({2}), std::nan(""), g), ValueError);
  CHECK_THROWS_WITH(dropout(ones({2}, int64), 0.5, g),
                    "dropout: needs float32 or float64, got int64");
  CHECK(g.next_u32() == untouched.next_u32());
}

}  // namespace
