// Joining, indexing and running sums against plain loops in float64, in several layouts.
#include <string>
#include <vector>

#include "autograd/engine/engine.h"
#include "autograd/ops/ops.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

// The same values contiguous, with transposed strides, with negative ones, and with gaps.
std::vector<Tensor> in_every_layout(const Tensor& x) {
  return {x, transpose(contiguous(transpose(x, 0, -1)), 0, -1), flip(contiguous(flip(x, 0)), 0),
          select(contiguous(expand(unsqueeze(x, -1),
                                   [&] {
                                     Shape s = x.shape();
                                     s.push_back(2);
                                     return s;
                                   }())),
                 -1, 1)};
}

Tensor some_normal(const Shape& shape) {
  static Generator g(7);
  return randn(shape, float64, g);
}
Tensor integers(std::int64_t high, const Shape& shape) {
  static Generator g(8);
  return randint(0, high, shape, g);
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && all(eq(a, b)).item() != 0;
}

// What an E says that f throws; empty if it throws none.
template <class E, class F>
std::string message(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("cat puts tensors one after the other", "[join]") {
  const Tensor a0 = some_normal({2, 3, 4}), b0 = some_normal({2, 2, 4});
  for (const Tensor& a : in_every_layout(a0))
    for (const Tensor& b : in_every_layout(b0)) {
      const Tensor y = cat({a, b, a}, -2);
      REQUIRE(y.shape() == Shape{2, 8, 4});
      for (std::int64_t i = 0; i < 2; ++i)
        for (std::int64_t j = 0; j < 8; ++j)
          for (std::int64_t k = 0; k < 4; ++k)
            REQUIRE(y.at({i, j, k}) == (j < 3   ? a0.at({i, j, k})
                                        : j < 5 ? b0.at({i, j - 3, k})
                                                : a0.at({i, j - 5, k})));
    }
  CHECK(equal(cat({tensor({1, 2}, int64), tensor({3}, int64)}, 0), tensor({1, 2, 3}, int64)));
  CHECK(equal(cat({tensor({1}, bool8), tensor({0}, bool8)}, 0), tensor({1, 0}, bool8)));
  CHECK(equal(cat({zeros({0, 2}), ones({1, 2}), zeros({0, 2})}, 0), ones({1, 2})));
  CHECK(equal(cat({expand(tensor(5), {2}), tensor({1})}, 0), tensor({5, 5, 1})));
}

TEST_CASE("cat lifts a constant beside a dual number", "[join]") {
  const Tensor x = some_normal({2}), u = some_normal({2}), constant = some_normal({3});
  const auto f = [&](Args t) { return cat({constant, t[0]}, 0); };
  const JvpResult r = jvp(f, std::vector{x}, std::vector{u});
  CHECK(equal(r.value, cat({constant, x}, 0)));
  CHECK(equal(r.tangent, cat({zeros({3}, float64), u}, 0)));
}

TEST_CASE("stack makes a new axis", "[join]") {
  const Tensor a = some_normal({2, 3}), b = some_normal({2, 3});
  for (const std::int64_t axis : {0, 1, 2, -1, -2, -3}) {
    const Tensor y = stack({a, b}, axis);
    CHECK(equal(select(y, axis, 0), a));
    CHECK(equal(select(y, axis, 1), b));
  }
  CHECK(stack({a, b}, 1).shape() == Shape{2, 2, 3});
  CHECK(equal(stack({tensor(1, int64), tensor(2, int64)}, 0), tensor({1, 2}, int64)));
}

TEST_CASE("split and chunk are views that cat joins again", "[join]") {
  const Tensor x = some_normal({2, 7});
  const std::vector<Tensor> parts = split(x, 3, 1);
  REQUIRE(parts.size() == 3);
  CHECK(parts[0].shape() == Shape{2, 3});
  CHECK(parts[2].shape() == Shape{2, 1});
  CHECK(parts[1].shares_storage(x));
  CHECK(equal(cat(parts, 1), x));
  CHECK(chunk(x, 3, -1).size() == 3);  // 3, 3, 1
  CHECK(chunk(x, 5, -1).size() == 4);  // 2, 2, 2, 1: at most five
  CHECK(chunk(x, 9, -1).size() == 7);
  CHECK(split(zeros({0, 2}), 3, 0).size() == 1);
  CHECK(chunk(zeros({0, 2}), 3, 0).size() == 3);
}

TEST_CASE("gather reads what its index names", "[index]") {
  const Tensor x0 = some_normal({3, 4, 5}), index0 = integers(4, {2, 6, 5});
  for (const Tensor& x : in_every_layout(x0))
    for (const Tensor& index : in_every_layout(index0)) {
      const Tensor y = gather(x, 1, index);
      REQUIRE(y.shape() == index0.shape());
      for (std::int64_t i = 0; i < 2; ++i)
        for (std::int64_t j = 0; j < 6; ++j)
          for (std::int64_t k = 0; k < 5; ++k)
            REQUIRE(y.at({i, j, k}) == x0.at({i, std::int64_t(index0.at({i, j, k})), k}));
    }
  CHECK(equal(gather(tensor({{1, 2}, {3, 4}}, int64), 1, tensor({{1, 1}, {0, 1}}, int64)),
              tensor({{2, 2}, {3, 4}}, int64)));
}

TEST_CASE("scatter_add accumulates repeats", "[index]") {
  const Tensor x0 = some_normal({3, 4, 5}), index0 = integers(4, {2, 6, 5}),
               src0 = some_normal({2, 6, 5});
  std::vector<double> expected = x0.to_vector<double>();
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 6; ++j)
      for (std::int64_t k = 0; k < 5; ++k)
        expected[std::size_t((i * 4 + std::int64_t(index0.at({i, j, k}))) * 5 + k)] +=
            src0.at({i, j, k});
  for (const Tensor& x : in_every_layout(x0))
    for (const Tensor& index : in_every_layout(index0))
      for (const Tensor& src : in_every_layout(src0))
        REQUIRE(allclose(scatter_add(x, 1, index, src), from_data(expected, {3, 4, 5}), 0, 1e-14));
  CHECK(equal(scatter_add(zeros({2}, int64), 0, zeros({3}, int64), ones({3}, int64)),
              tensor({3, 0}, int64)));
  // Every element of an expanded tensor is its own.
  CHECK(equal(scatter_add(expand(tensor(1), {2}), 0, tensor({1}, int64), tensor({5})),
              tensor({1, 6})));
}

TEST_CASE("index_select copies slices, index_add adds them back", "[index]") {
  const Tensor x0 = some_normal({3, 4, 5}), src0 = some_normal({3, 6, 5});
  const Tensor index0 = tensor({3, 0, 3, 1, 1, 3}, int64);
  std::vector<double> expected = x0.to_vector<double>();
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 6; ++j)
      for (std::int64_t k = 0; k < 5; ++k)
        expected[std::size_t((i * 4 + std::int64_t(index0.at({j}))) * 5 + k)] += src0.at({i, j, k});
  for (const Tensor& index : in_every_layout(index0))
    for (const Tensor& x : in_every_layout(x0)) {
      const Tensor y = index_select(x, 1, index);
      REQUIRE(y.shape() == Shape{3, 6, 5});
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t j = 0; j < 6; ++j)
          for (std::int64_t k = 0; k < 5; ++k)
            REQUIRE(y.at({i, j, k}) == x0.at({i, std::int64_t(index0.at({j})), k}));
      for (const Tensor& src : in_every_layout(src0))
        REQUIRE(allclose(index_add(x, 1, index, src), from_data(expected, {3, 4, 5}), 0, 1e-14));
    }
  CHECK(equal(index_select(tensor({1, 0, 1}, bool8), 0, tensor({1, 2}, int64)),
              tensor({0, 1}, bool8)));
  CHECK(equal(index_select(some_normal({3, 2}), 0, zeros({0}, int64)), zeros({0, 2}, float64)));
  CHECK(equal(index_select(zeros({3, 0}), 0, tensor({2}, int64)), zeros({1, 0})));
}

TEST_CASE("embedding reads rows, its gradient adds them up", "[index]") {
  const Tensor weight = some_normal({5, 3}).requires_grad_(), cotangent = some_normal({2, 4, 3});
  const Tensor ids0 = tensor({{4, 0, 4, 2}, {4, 1, 0, 0}}, int64);
  std::vector<double> expected(15);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t t = 0; t < 4; ++t)
      for (std::int64_t d = 0; d < 3; ++d)
        expected[std::size_t(std::int64_t(ids0.at({b, t})) * 3 + d)] += cotangent.at({b, t, d});
  for (const Tensor& ids : in_every_layout(ids0)) {
    const Tensor y = embedding(weight, ids);
    REQUIRE(y.shape() == Shape{2, 4, 3});
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t t = 0; t < 4; ++t)
        for (std::int64_t d = 0; d < 3; ++d)
          REQUIRE(y.at({b, t, d}) == weight.at({std::int64_t(ids0.at({b, t})), d}));
    const Tensor g = grad(y, {weight}, {.grad_output = cotangent})[0];
    REQUIRE(allclose(g, from_data(expected, {5, 3}), 0, 1e-14));
  }
  CHECK(embedding(weight, tensor(2, int64)).shape() == Shape{3});
  CHECK(embedding(weight, zeros({2, 0}, int64)).shape() == Shape{2, 0, 3});
}

TEST_CASE("cumsum is a running sum", "[scan]") {
  const Tensor x0 = some_normal({2, 3, 4});
  for (const Tensor& x : in_every_layout(x0))
    for (const int axis : {0, 1, -1}) {
      const Tensor y = cumsum(x, axis);
      for (std::int64_t i = 0; i < x.size(axis); ++i)
        REQUIRE(allclose(select(y, axis, i), sum(slice(x0, axis, 0, i + 1), {axis}), 0, 1e-14));
    }
  CHECK(equal(cumsum(tensor({1, 2, 3}, int64), 0), tensor({1, 3, 6}, int64)));
  CHECK(cumsum(zeros({2, 0}), 1).shape() == Shape{2, 0});
}

TEST_CASE("errors of joining say which tensor", "[join]") {
  CHECK(message<ShapeError>([] {
          cat({zeros({2, 3}), zeros({2, 4})}, 0);
        }) == "cat: tensors must agree on every axis but 0, got [2, 3] and [2, 4] (tensor 1)");
  CHECK(message<ShapeError>([] {
          cat({zeros({2, 3}), zeros({2})}, 0);
        }) == "cat: tensors must agree on every axis but 0, got [2, 3] and [2] (tensor 1)");
  CHECK(message<DTypeError>([] {
          cat({zeros({2}), zeros({2}, int64)}, 0);
        }) == "cat: dtypes differ: float32 and int64; convert one with to(x, dtype)");
  CHECK(message<ValueError>([] { cat(std::vector<Tensor>(), 0); }) ==
        "cat: needs at least one tensor");
  CHECK(message<ShapeError>([] {
          stack({zeros({2}), zeros({3})}, 0);
        }) == "stack: needs tensors of one shape, got [2] and [3] (tensor 1)");
  CHECK(message<ShapeError>([] { stack({zeros({2})}, 2); }) ==
        "stack: axis 2 is out of range for a new axis of [2]");
  CHECK(message<ValueError>([] { split(zeros({2}), 0, 0); }) == "split: needs a size >= 1, got 0");
  CHECK(message<ValueError>([] { chunk(zeros({2}), -1, 0); }) ==
        "chunk: needs at least one chunk, got -1");
}

TEST_CASE("errors of indexing name value, place and bound", "[index]") {
  const Tensor x = zeros({2, 5});
  CHECK(message<ValueError>([&] {
          gather(x, 1, tensor({{0, 1, 2}, {3, 4, 7}}, int64));
        }) == "gather: index 7 at [1, 2] is out of range for axis 1 of [2, 5]");
  CHECK(message<ValueError>([&] {
          gather(x, 1, mT(tensor({{0, -1}, {9, 0}}, int64)));
        }) == "gather: index 9 at [0, 1] is out of range for axis 1 of [2, 5]");
  CHECK(message<ShapeError>([&] {
          gather(x, 1, zeros({3, 1}, int64));
        }) ==
        "gather: the index needs 2 axes, none but axis 1 larger than x's, got x [2, 5] and index "
        "[3, 1]");
  CHECK(message<DTypeError>([&] {
          gather(x, 1, zeros({2, 1}));
        }) == "gather: needs an int64 index, got float32");
  CHECK(message<ShapeError>([&] {
          scatter_add(x, 1, zeros({2, 1}, int64), zeros({2, 2}));
        }) == "scatter_add: needs src of the index's shape [2, 1], got [2, 2]");
  CHECK(message<ValueError>([&] {
          scatter_add(x, 0, full({1, 1}, 2, int64), zeros({1, 1}));
        }) == "scatter_add: index 2 at [0, 0] is out of range for axis 0 of [2, 5]");
  CHECK(message<ShapeError>([&] {
          index_select(x, 0, zeros({1, 1}, int64));
        }) == "index_select: needs an index of rank 1, got [1, 1]");
  CHECK(message<ValueError>([&] {
          index_select(x, -1, tensor({0, 5}, int64));
        }) == "index_select: index 5 at [1] is out of range for axis 1 of [2, 5]");
  CHECK(message<ShapeError>([&] {
          index_add(x, 0, zeros({3}, int64), zeros({2, 5}));
        }) == "index_add: needs src [3, 5] for x [2, 5] and 3 indices of axis 0, got [2, 5]");
  const Tensor ids = tensor({{0, 1, 2, 65}}, int64);
  CHECK(message<ValueError>([&] {
          embedding(zeros({65, 4}), ids);
        }) == "embedding: id 65 at [0, 3] is outside the vocabulary of 65 rows");
  CHECK(message<DTypeError>([&] {
          embedding(zeros({65, 4}), zeros({2}));
        }) == "embedding: needs int64 ids, got float32");
  CHECK(message<ShapeError>([&] { embedding(zeros({65}), ids); }) ==
        "embedding: needs a weight [vocabulary, D], got [65]");
}
