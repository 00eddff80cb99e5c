// Tests of the search for the first difference between the weights of two runs.
#include "nn/run/first_difference.h"

#include "autograd/ops/ops.h"
#include "tests/support/catch.h"
#include "tests/support/disk.h"

namespace {

namespace fs = std::filesystem;
using namespace heed::autograd;
using namespace heed::nn;
using heed::testing::Folder;

SafeTensors file_of(std::vector<float> w, std::vector<float> b) {
  SafeTensors f;
  f.path = "file";
  f.tensors = {{"w", from_data(w, {2, 3})}, {"b", from_data(b, {std::int64_t(b.size())})}};
  return f;
}

TEST_CASE("the first difference names tensor, index and both values") {
  const SafeTensors a = file_of({0, 1, 2, 3, 4, 5}, {1, 2});
  CHECK_FALSE(first_difference(a, file_of({0, 1, 2, 3, 4, 5}, {1, 2})));
  const auto w = first_difference(a, file_of({0, 1, 2, 3, 7, 8}, {1, 3}));
  REQUIRE(w);
  CHECK(w->tensor == "w");
  CHECK(w->index == Shape{1, 1});
  CHECK(w->a == 4);
  CHECK(w->b == 7);
  const auto b = first_difference(a, file_of({0, 1, 2, 3, 4, 5}, {1, 3}));
  REQUIRE(b);
  CHECK(b->tensor == "b");
  CHECK(b->index == Shape{1});
}

TEST_CASE("bits are compared, not values") {
  const SafeTensors a = file_of({0, NAN, 2, 3, 4, 5}, {1, 2});
  CHECK_FALSE(first_difference(a, file_of({0, NAN, 2, 3, 4, 5}, {1, 2})));
  const auto zero = first_difference(a, file_of({-0.0f, NAN, 2, 3, 4, 5}, {1, 2}));
  REQUIRE(zero);
  CHECK(zero->index == Shape{0, 0});
  const float next = std::nextafterf(5, 6);
  REQUIRE(first_difference(a, file_of({0, NAN, 2, 3, 4, next}, {1, 2})));
}

TEST_CASE("files with different tensors cannot be compared") {
  const SafeTensors a = file_of({0, 1, 2, 3, 4, 5}, {1, 2});
  CHECK_THROWS_AS(first_difference(a, file_of({0, 1, 2, 3, 4, 5}, {1, 2, 3})), IoError);
  SafeTensors fewer = a;
  fewer.tensors.pop_back();
  CHECK_THROWS_AS(first_difference(a, fewer), IoError);
  SafeTensors renamed = a;
  renamed.tensors[1].name = "c";
  CHECK_THROWS_AS(first_difference(a, renamed), IoError);
}

}  // namespace
