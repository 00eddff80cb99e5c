// Tests of item() and item<T>(), which return the only element of a tensor.
#include "autograd/ops/ops.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

TEST_CASE("item<T>() returns the element without conversion") {
  // The smallest positive integer that double cannot represent.
  constexpr Index kLarge = (Index(1) << 53) + 1;
  const Tensor x = from_data(std::vector{kLarge, -kLarge}, {2});
  CHECK(select(x, 0, 0).item<std::int64_t>() == kLarge);
  CHECK(select(x, 0, 1).item<std::int64_t>() == -kLarge);
  CHECK(select(x, 0, 0).item() == double(kLarge - 1));
  CHECK(x.at({0}) == double(kLarge - 1));
  CHECK(full({1, 1}, 0.1, float32).item<float>() == 0.1f);
  CHECK(full({}, 0.1, float64).item<double>() == 0.1);
  CHECK(eq(zeros({}), zeros({})).item<bool>());
}

TEST_CASE("item<T>() of another dtype is an error") {
  CHECK_THROWS_WITH(
      ones({}).item<double>(),
      "item: requested float64 from a float32 tensor; convert the tensor with to(x, dtype)");
  CHECK_THROWS_AS(ones({}).item<std::int64_t>(), DTypeError);
}

}  // namespace
