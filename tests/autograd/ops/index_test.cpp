// Compares joining and indexing with plain loops in float64, in every layout.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace heed::autograd::testing;

Tensor some_normal(const Shape& shape) {
  static Generator g(7);
  return randn(shape, float64, g);
}

Tensor integers(Index high, const Shape& shape) {
  static Generator g(8);
  return randint(0, high, shape, g);
}

double at(const Tensor& x, const Dims& index) { return values(x)[place(index, x.shape())]; }

// Returns the tensor that has the value f(index) at each index.
template <class F>
Tensor made_of(const Shape& shape, F f) {
  V v;
  for (Index i = 0; i < shape.numel(); ++i) v.push_back(f(unravel(i, shape)));
  return from_data(v, shape);
}

// Returns x after the element of src at `index` is added to the element at to(index), for every
// index.
template <class F>
Tensor added(const Tensor& x, const Tensor& src, F to) {
  V v = values(x);
  for (Index i = 0; i < src.numel(); ++i)
    v[place(to(unravel(i, src.shape())), x.shape())] += values(src)[std::size_t(i)];
  return from_data(v, x.shape());
}

bool near(const Tensor& got, const Tensor& want) { return allclose(got, want, 0, 1e-14); }

TEST_CASE("cat joins tensors one after the other") {
  const Tensor a0 = some_normal({2, 3, 4}), b0 = some_normal({2, 2, 4});
  const Tensor want = made_of({2, 8, 4}, [&](Dims i) {
    return i[1] < 3   ? at(a0, i)
           : i[1] < 5 ? at(b0, {i[0], i[1] - 3, i[2]})
                      : at(a0, {i[0], i[1] - 5, i[2]});
  });
  for (const auto& [name_a, a] : layouts(a0))
    for (const auto& [name_b, b] : layouts(b0)) CHECK(same_bits(cat({a, b, a}, -2), want));
  CHECK(same_bits(cat({tensor({1, 2}, int64), tensor({3}, int64)}, 0), tensor({1, 2, 3}, int64)));
  CHECK(same_bits(cat({tensor({1}, bool8), tensor({0}, bool8)}, 0), tensor({1, 0}, bool8)));
  CHECK(same_bits(cat({zeros({0, 2}), ones({1, 2}), zeros({0, 2})}, 0), ones({1, 2})));
  CHECK(same_bits(cat({expand(tensor(5), {2}), tensor({1})}, 0), tensor({5, 5, 1})));
}

TEST_CASE("stack makes a new axis") {
  const Tensor a = some_normal({2, 3}), b = some_normal({2, 3});
  for (const Index axis : {0, 1, 2, -1, -2, -3}) {
    const Tensor y = stack({a, b}, axis);
    CHECK(same_bits(select(y, axis, 0), a));
    CHECK(same_bits(select(y, axis, 1), b));
  }
  CHECK(same_bits(stack({tensor(1, int64), tensor(2, int64)}, 0), tensor({1, 2}, int64)));
}

TEST_CASE("split and chunk are views that cat joins again") {
  const Tensor x = some_normal({2, 7});
  const std::vector<Tensor> parts = split(x, 3, 1);
  REQUIRE(parts.size() == 3);
  CHECK(parts[2].shape() == Shape{2, 1});
  CHECK(parts[1].shares_storage(x));
  CHECK(same_bits(cat(parts, 1), x));
  CHECK(chunk(x, 3, -1).size() == 3);  // sizes 3, 3 and 1
  CHECK(chunk(x, 5, -1).size() == 4);  // sizes 2, 2, 2 and 1
  CHECK(chunk(x, 9, -1).size() == 7);
  CHECK(split(zeros({0, 2}), 3, 0).size() == 1);
  CHECK(chunk(zeros({0, 2}), 3, 0).size() == 3);
}

TEST_CASE("gather reads the places of its index; scatter_add accumulates repeated places") {
  const Tensor x0 = some_normal({3, 4, 5}), index0 = integers(4, {2, 6, 5}),
               src0 = some_normal({2, 6, 5});
  const auto named = [&](Dims i) { return Dims{i[0], Index(at(index0, i)), i[2]}; };
  const Tensor want = made_of(index0.shape(), [&](Dims i) { return at(x0, named(i)); });
  const Tensor sums = added(x0, src0, named);
  for (const auto& [name_x, x] : layouts(x0))
    for (const auto& [name_index, index] : layouts(index0)) {
      CHECK(same_bits(gather(x, 1, index), want));
      for (const auto& [name_src, src] : layouts(src0))
        CHECK(near(scatter_add(x, 1, index, src), sums));
    }
  CHECK(same_bits(gather(tensor({{1, 2}, {3, 4}}, int64), 1, tensor({{1, 1}, {0, 1}}, int64)),
                  tensor({{2, 2}, {3, 4}}, int64)));
  CHECK(same_bits(scatter_add(zeros({2}, int64), 0, zeros({3}, int64), ones({3}, int64)),
                  tensor({3, 0}, int64)));
  // If x is expanded (stride 0), the elements of the result still have separate memory.
  CHECK(same_bits(scatter_add(expand(tensor(1), {2}), 0, tensor({1}, int64), tensor({5})),
                  tensor({1, 6})));
}

TEST_CASE("index_select copies slices, index_add adds them back") {
  const Tensor x0 = some_normal({3, 4, 5}), src0 = some_normal({3, 6, 5});
  const Tensor index0 = tensor({3, 0, 3, 1, 1, 3}, int64);
  const auto named = [&](Dims i) { return Dims{i[0], Index(at(index0, {i[1]})), i[2]}; };
  const Tensor want = made_of({3, 6, 5}, [&](Dims i) { return at(x0, named(i)); });
  const Tensor sums = added(x0, src0, named);
  for (const auto& [name_index, index] : layouts(index0))
    for (const auto& [name_x, x] : layouts(x0)) {
      CHECK(same_bits(index_select(x, 1, index), want));
      for (const auto& [name_src, src] : layouts(src0))
        CHECK(near(index_add(x, 1, index, src), sums));
    }
  CHECK(same_bits(index_select(tensor({1, 0, 1}, bool8), 0, tensor({1, 2}, int64)),
                  tensor({0, 1}, bool8)));
  CHECK(same_bits(index_select(some_normal({3, 2}), 0, zeros({0}, int64)), zeros({0, 2}, float64)));
  CHECK(same_bits(index_select(zeros({3, 0}), 0, tensor({2}, int64)), zeros({1, 0})));
}

TEST_CASE("embedding reads rows") {
  const Tensor weight = some_normal({5, 3}), ids0 = tensor({{4, 0, 4, 2}, {4, 1, 0, 0}}, int64);
  const Tensor want = made_of({2, 4, 3}, [&](Dims i) {
    return at(weight, {Index(at(ids0, {i[0], i[1]})), i[2]});
  });
  for (const auto& [name, ids] : layouts(ids0)) CHECK(same_bits(embedding(weight, ids), want));
  CHECK(embedding(weight, tensor(2, int64)).shape() == Shape{3});
  CHECK(embedding(weight, zeros({2, 0}, int64)).shape() == Shape{2, 0, 3});
}

TEST_CASE("errors of joining name the tensor") {
  const Tensor x = zeros({2, 3});
  CHECK_ERROR(ShapeError, cat({x, zeros({2, 4})}, 0),
              "cat: tensors must have equal sizes on every axis except 0, got [2, 3] and [2, 4] "
              "(tensor 1)");
  CHECK_ERROR(
      ShapeError, cat({x, zeros({2})}, 0),
      "cat: tensors must have equal sizes on every axis except 0, got [2, 3] and [2] (tensor 1)");
  CHECK_ERROR(DTypeError, cat({zeros({2}), zeros({2}, int64)}, 0),
              "cat: dtypes differ: float32 and int64; convert one with to(x, dtype)");
  CHECK_ERROR(ValueError, cat(std::vector<Tensor>(), 0), "cat: needs at least one tensor");
  CHECK_ERROR(ShapeError, stack({zeros({2}), zeros({3})}, 0),
              "stack: needs tensors of one shape, got [2] and [3] (tensor 1)");
  CHECK_ERROR(ShapeError, stack({zeros({2})}, 2),
              "stack: axis 2 is out of range for a new axis of [2]; needs -2 to 1");
  CHECK_ERROR(ValueError, split(zeros({2}), 0, 0), "split: needs a size >= 1, got 0");
  CHECK_ERROR(ValueError, chunk(zeros({2}), -1, 0), "chunk: needs at least one chunk, got -1");
}

TEST_CASE("errors of indexing name value, place and bound") {
  const Tensor x = zeros({2, 5}), ids = tensor({{0, 1, 2, 65}}, int64);
  CHECK_ERROR(ValueError, gather(x, 1, tensor({{0, 1, 2}, {3, 4, 7}}, int64)),
              "gather: index 7 at [1, 2] is out of range for axis 1 of [2, 5]");
  CHECK_ERROR(ValueError, gather(x, 1, mT(tensor({{0, -1}, {9, 0}}, int64))),
              "gather: index 9 at [0, 1] is out of range for axis 1 of [2, 5]");
  CHECK_ERROR(ShapeError, gather(x, 1, zeros({3, 1}, int64)),
              "gather: the index needs 2 axes, and only axis 1 may be larger than that of x; got x "
              "[2, 5] and "
              "index [3, 1]");
  CHECK_ERROR(DTypeError, gather(x, 1, zeros({2, 1})), "gather: needs an int64 index, got float32");
  CHECK_ERROR(ShapeError, scatter_add(x, 1, zeros({2, 1}, int64), zeros({2, 2})),
              "scatter_add: needs src of the index's shape [2, 1], got [2, 2]");
  CHECK_ERROR(ValueError, scatter_add(x, 0, full({1, 1}, 2, int64), zeros({1, 1})),
              "scatter_add: index 2 at [0, 0] is out of range for axis 0 of [2, 5]");
  CHECK_ERROR(ShapeError, index_select(x, 0, zeros({1, 1}, int64)),
              "index_select: needs an index of rank 1, got [1, 1]");
  CHECK_ERROR(ValueError, index_select(x, -1, tensor({0, 5}, int64)),
              "index_select: index 5 at [1] is out of range for axis 1 of [2, 5]");
  CHECK_ERROR(ShapeError, index_add(x, 0, zeros({3}, int64), zeros({2, 5})),
              "index_add: needs src [3, 5] for x [2, 5] and 3 indices of axis 0, got [2, 5]");
  CHECK_ERROR(ValueError, embedding(zeros({65, 4}), ids),
              "embedding: id 65 at [0, 3] is outside the vocabulary of 65 rows");
  CHECK_ERROR(DTypeError, embedding(zeros({65, 4}), zeros({2})),
              "embedding: needs int64 ids, got float32");
  CHECK_ERROR(ShapeError, embedding(zeros({65}), ids),
              "embedding: needs a weight [vocabulary, D], got [65]");
}

}  // namespace
