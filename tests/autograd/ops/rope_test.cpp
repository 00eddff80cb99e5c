// Rotary positions at the ends of what they take: no channels, and positions far from the first.
#include <thread>

#include "autograd/autograd.h"
#include "autograd/base/pool.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

TEST_CASE("rope of no channels is nothing, and so is its gradient") {
  const Tensor x = zeros({2, 3, 0}, float64).requires_grad_();
  const Tensor y = rope(x);
  CHECK(y.shape() == Shape{2, 3, 0});
  CHECK(grad(sum(y), x).shape() == x.shape());
}

// Row 0 of rope of [1, 0, 0 ...]: the pairs' cosines and sines.
double first_sine(std::int64_t position, double base) {
  const Tensor x = tensor({{1, 0, 0, 0}}, float64);
  return rope(x, {.base = base, .offset = position}).at({0, 2});
}

TEST_CASE("rope computes the angles of the rows it is asked for, no others") {
  // In a thread of its own, which has no angles yet.
  std::thread([] {
    const std::uint64_t before = pool_stats().live_bytes;
    reset_peak_bytes();
    CHECK(first_sine(1 << 24, 1e4) == Approx(std::sin(double(1 << 24))).epsilon(1e-12));
    CHECK(pool_stats().peak_bytes - before < 1 << 16);
  }).join();
}

TEST_CASE("rope's angles are right in whatever order positions are asked for") {
  for (const std::int64_t p : {5, 6, 8, 7, 0, 1, 900, 2, 901, 899, 900}) {
    CAPTURE(p);
    CHECK(first_sine(p, 1234) == std::sin(double(p)));
  }
  const Tensor x = randn({9, 6}, float64);
  const Tensor all = rope(x), middle = rope(slice(x, 0, 3, 6), {.offset = 3});
  CHECK(slice(all, 0, 3, 6).to_vector<double>() == middle.to_vector<double>());
}

}  // namespace
