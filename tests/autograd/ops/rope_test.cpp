// Tests of rope at its limits: no channels, and positions far from the first.
#include <thread>

#include "autograd/autograd.h"
#include "autograd/base/pool.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

// Returns the sine of the first pair: element 2 of rope([1, 0, 0, 0]) at this position.
double first_sine(Index position, double base) {
  const Tensor x = tensor({{1, 0, 0, 0}}, float64);
  return rope(x, {.base = base, .offset = position}).at({0, 2});
}

TEST_CASE("rope computes only the angles of the rows that are requested") {
  // A new thread has an empty cache of angles.
  std::thread([] {
    const std::uint64_t before = pool_stats().live_bytes;
    reset_peak_bytes();
    CHECK(first_sine(1 << 24, 1e4) == Approx(std::sin(double(1 << 24))).epsilon(1e-12));
    CHECK(pool_stats().peak_bytes - before < 1 << 16);
  }).join();
}

TEST_CASE("rope's angles are right for positions in any order") {
  for (const Index p : {5, 6, 8, 7, 0, 1, 900, 2, 901, 899, 900}) {
    CAPTURE(p);
    CHECK(first_sine(p, 1234) == std::sin(double(p)));
  }
  const Tensor x = randn({9, 6}, float64);
  const Tensor all = rope(x), middle = rope(slice(x, 0, 3, 6), {.offset = 3});
  CHECK(slice(all, 0, 3, 6).to_vector<double>() == middle.to_vector<double>());
}

}  // namespace
