// Tests of the construction of shapes and of access to their entries.
#include "autograd/autograd.h"
#include "tests/support/catch.h"

using namespace heed::autograd;

TEST_CASE("a shape converts from a list of integers, one integer or a vector") {
  const std::vector<Index> wide{2, 3};
  const std::vector<int> narrow{2, 3};
  CHECK(zeros(wide).shape() == Shape{2, 3});
  CHECK(zeros(narrow).shape() == Shape{2, 3});
  CHECK(zeros(3).shape() == Shape{3});
  CHECK(zeros(std::vector<int>{}).shape() == Shape());
  CHECK_THROWS_WITH(Shape(std::vector<int>(9, 1)), "shape: needs rank 0 to 8, got rank 9");
  const Tensor x = reshape(arange(6), {2, 3});
  CHECK(sum(x, 1).to_vector<std::int64_t>() == std::vector<std::int64_t>{3, 12});
  CHECK(sum(x, -2, true).shape() == Shape{1, 3});
  CHECK(reshape(x, -1).shape() == Shape{6});
  static_assert(!std::is_convertible_v<bool, Shape>, "sum(x, true) would sum axis 1");
}

TEST_CASE("a negative index of a shape counts from the back, and indices are checked") {
  Shape shape{2, 3, 5};
  CHECK(shape[-1] == 5);
  CHECK(shape[-3] == 2);
  CHECK(shape.back() == 5);
  shape[-1] = 7;
  CHECK(shape == Shape{2, 3, 7});
  CHECK_THROWS_WITH(
      shape[3], "shape: axis 3 is out of range for shape [2, 3, 7]; needs at least -3 and below 3");
  CHECK_THROWS_AS(shape[-4], ShapeError);
  CHECK_THROWS_AS(Shape()[0], ShapeError);
  CHECK_THROWS_AS(Shape().back(), ShapeError);
  CHECK(unravel(16, {2, 3, 5}) == Dims{1, 0, 1});
}
