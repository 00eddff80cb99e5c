// Tests of shape ops: which ops return views and which copy, their values compared with plain
// indexing, and their errors.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;

// Returns [2, 3, 4] with the values 0 to 23: the value at [i, j, k] is 12 i + 4 j + k.
Tensor box() { return reshape(arange(0, 24, 1, float64), {2, 3, 4}); }

// Returns true if, for each index, the value of y at the index equals the value of x at
// from(index).
template <class F>
bool reads(const Tensor& y, const Tensor& x, F from) {
  const V v = values(y);
  for (Index i = 0; i < y.numel(); ++i) {
    const Dims at = from(unravel(i, y.shape()));
    Index flat = 0;
    for (int a = 0; a < x.rank(); ++a) flat = flat * x.size(a) + at[a];
    if (v[std::size_t(i)] != values(x)[std::size_t(flat)]) return false;
  }
  return true;
}

TEST_CASE("views share storage and have the right values, in every layout") {
  for (const auto& [name, x] : layouts(box())) {
    CAPTURE(name);
    const auto view = [&](const Tensor& y, const Shape& shape, auto from) {
      CAPTURE(y.shape());
      CHECK(y.shape() == shape);
      CHECK(y.shares_storage(x));
      CHECK(reads(y, x, from));
    };
    view(permute(x, {2, 0, -2}), {4, 2, 3}, [](Dims i) { return Dims{i[1], i[2], i[0]}; });
    view(transpose(x, 0, -1), {4, 3, 2}, [](Dims i) { return Dims{i[2], i[1], i[0]}; });
    view(mT(x), {2, 4, 3}, [](Dims i) { return Dims{i[0], i[2], i[1]}; });
    view(slice(x, 2, 1, 4, 2), {2, 3, 2}, [](Dims i) { return Dims{i[0], i[1], 1 + 2 * i[2]}; });
    view(select(x, 1, -1), {2, 4}, [](Dims i) { return Dims{i[0], 2, i[1]}; });
    view(flip(x, 1), {2, 3, 4}, [](Dims i) { return Dims{i[0], 2 - i[1], i[2]}; });
    view(unsqueeze(x, 1), {2, 1, 3, 4}, [](Dims i) { return Dims{i[0], i[2], i[3]}; });
    view(unsqueeze(x, -1), {2, 3, 4, 1}, [](Dims i) { return Dims{i[0], i[1], i[2]}; });
    view(squeeze(unsqueeze(x, 0), 0), {2, 3, 4}, [](Dims i) { return i; });
    view(expand(x, {5, 2, 3, 4}), {5, 2, 3, 4}, [](Dims i) { return Dims{i[1], i[2], i[3]}; });
    view(expand(slice(x, 1, 1, 2), {-1, 6, -1}), {2, 6, 4}, [](Dims i) {
      return Dims{i[0], 1, i[2]};
    });
    view(reshape(x, {2, 3, 2, 2}), {2, 3, 2, 2}, [](Dims i) {
      return Dims{i[0], i[1], 2 * i[2] + i[3]};
    });
    view(chunk(x, 2, -1)[1], {2, 3, 2}, [](Dims i) { return Dims{i[0], i[1], 2 + i[2]}; });
    view(split(x, 2, 1)[1], {2, 1, 4}, [](Dims i) { return Dims{i[0], 2, i[2]}; });
  }
}

TEST_CASE("slice follows Python's rules for bounds") {
  const Tensor x = arange(5);
  const auto s = [&](Index start, Index end, Index step = 1) {
    return values(slice(x, 0, start, end, step));
  };
  CHECK(s(0, 5) == V{0, 1, 2, 3, 4});
  CHECK(s(-2, 100) == V{3, 4});
  CHECK(s(-100, -3) == V{0, 1});
  CHECK(s(1, 5, 3) == V{1, 4});
  CHECK(s(0, 4, 2) == V{0, 2});
  CHECK(s(4, 2).empty());
  CHECK(s(7, 9).empty());
  CHECK(s(0, 5, 100) == V{0});
  CHECK(slice(zeros({0, 2}), 0, 0, 3).shape() == Shape{0, 2});
}

TEST_CASE("reshape is a view if the strides permit it, else a row-major copy") {
  const Tensor x = box();
  struct Case {
    const char* what;
    Tensor from;
    Shape to;
    bool view;
  };
  const std::vector<Case> cases = {
      {"contiguous", x, {6, 4}, true},
      {"contiguous, all", x, {24}, true},
      {"permuted, axes merged that lie apart", permute(x, {1, 0, 2}), {6, 4}, false},
      {"permuted, axes kept", permute(x, {1, 0, 2}), {3, 2, 2, 2}, true},
      {"permuted, mergeable pair", permute(x, {2, 0, 1}), {4, 6}, true},
      {"sliced rows", slice(x, 1, 0, 2), {2, 8}, true},
      {"sliced rows, merged with more", slice(x, 1, 0, 2), {16}, false},
      {"steps", slice(x, 2, 0, 4, 2), {2, 6}, true},
      {"expanded, new axis split", expand(slice(x, 0, 0, 1), {4, 3, 4}), {2, 2, 12}, true},
      {"expanded, merged with values", expand(slice(x, 0, 0, 1), {4, 3, 4}), {12, 4}, false},
      {"scalar expanded", expand(full({}, 7, float64), {2, 3}), {6}, true},
      {"reversed in every axis", flip(flip(flip(x, 0), 1), 2), {24}, true},
      {"reversed in one axis", flip(x, 2), {24}, false},
      {"ones", unsqueeze(mT(x), 0), {2, 1, 4, 3, 1}, true},
      {"empty", slice(x, 0, 0, 0), {3, 0, 7}, true}};
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const Tensor y = reshape(c.from, c.to);
    CHECK(y.shape() == c.to);
    CHECK(values(y) == values(c.from));  // the order of the elements stays row-major
    CHECK(y.shares_storage(c.from) == c.view);
    if (!c.view) CHECK(y.is_contiguous());
  }
  CHECK(reshape(x, {-1}).shape() == Shape{24});
  CHECK(reshape(x, {4, -1, 2}).shape() == Shape{4, 3, 2});
  CHECK(reshape(full({}, 3), {1, 1}).shape() == Shape{1, 1});
  CHECK(reshape(zeros({0, 3}), {-1, 3}).shape() == Shape{0, 3});
}

TEST_CASE("random reshapes of random layouts keep row-major order") {
  Generator g(3);
  const std::vector<Shape> shapes = {{24},         {2, 12},   {4, 6},      {3, 8},
                                     {2, 3, 4},    {4, 3, 2}, {1, 24, 1},  {2, 2, 6},
                                     {2, 1, 3, 4}, {6, 2, 2}, {2, 2, 2, 3}};
  const auto pick = [&](Index n) { return randint(0, n, {}, g).item(); };
  for (int trial = 0; trial < 2000; ++trial) {
    Tensor x = reshape(randn({24}, float64, g), shapes[std::size_t(pick(Index(shapes.size())))]);
    if (pick(2) > 0) x = transpose(x, 0, -1);
    if (pick(2) > 0) x = flip(x, Index(pick(x.rank())));
    if (pick(3) == 0) x = layouts(x)[std::size_t(pick(4))].x;
    const Shape to = shapes[std::size_t(pick(Index(shapes.size())))];
    CAPTURE(x.shape(), x.strides(), to);
    CHECK(values(reshape(x, to)) == values(x));
  }
}

TEST_CASE("contiguous returns x itself or a copy; shapes of flatten") {
  const Tensor x = box();
  CHECK(contiguous(x).is_same(x));
  CHECK(!contiguous(mT(x)).shares_storage(x));
  CHECK(contiguous(mT(x)).is_contiguous());
  CHECK(contiguous(slice(x, 0, 1, 2)).shares_storage(x));  // an offset needs no copy
  CHECK(flatten(x, 1).shape() == Shape{2, 12});
  CHECK(flatten(x, 0, 1).shape() == Shape{6, 4});
  CHECK(flatten(full({}, 1)).shape() == Shape{1});
}

TEST_CASE("a write through a view changes all views of the storage and raises the version") {
  const Tensor x = zeros({2, 3}, float64), row = select(x, 0, 1);
  fill_(flip(row, 0), 5);
  CHECK(values(x) == V{0, 0, 0, 5, 5, 5});
  CHECK(x.version() == 1);
  copy_(slice(x, 1, 0, 3, 2), tensor({{1, 2}, {3, 4}}, float64));
  CHECK(values(x) == V{1, 0, 2, 3, 5, 4});
  CHECK(row.version() == 2);
}

TEST_CASE("errors of shape ops") {
  const Tensor x = box();
  CHECK_THROWS_WITH(
      reshape(x, {5, 5}),
      "reshape: cannot turn [2, 3, 4] (24 elements) into [5, 5]; needs as many elements");
  CHECK_THROWS_WITH(reshape(x, {-1, 7}),
                    "reshape: cannot turn [2, 3, 4] (24 elements) into [-1, 7]; the other sizes do "
                    "not determine the -1");
  CHECK_THROWS_WITH(reshape(x, {-1, -1}),
                    "reshape: needs sizes >= 0 and at most one -1, got [-1, -1]");
  CHECK_THROWS_WITH(reshape(x, {-2, 12}),
                    "reshape: needs sizes >= 0 and at most one -1, got [-2, 12]");
  CHECK_THROWS_WITH(permute(x, {0, 1}), "permute: needs 3 axes for shape [2, 3, 4], got [0, 1]");
  CHECK_THROWS_WITH(permute(x, {0, 1, -2}),
                    "permute: axis 1 appears twice in [0, 1, -2] for shape [2, 3, 4]");
  CHECK_THROWS_WITH(
      transpose(x, 0, 3),
      "transpose: axis 3 is out of range for shape [2, 3, 4]; needs at least -3 and below 3");
  CHECK_THROWS_WITH(mT(arange(3)), "mT: needs rank >= 2, got [3]");
  CHECK_THROWS_WITH(expand(x, {2, 3, 5}),
                    "expand: cannot expand [2, 3, 4] to [2, 3, 5]: axis 2 has size 4, only size 1 "
                    "expands");
  CHECK_THROWS_WITH(expand(x, {3, 4}),
                    "expand: cannot expand [2, 3, 4] to the lower rank of [3, 4]");
  CHECK_THROWS_WITH(expand(x, {-1, 2, 3, 4}), "expand: sizes must be >= 0, got [-1, 2, 3, 4]");
  CHECK_THROWS_WITH(squeeze(x, 1), "squeeze: axis 1 of [2, 3, 4] has size 3, not 1");
  CHECK_THROWS_WITH(unsqueeze(x, 4),
                    "unsqueeze: axis 4 is out of range for a new axis of [2, 3, 4]; needs -4 to 3");
  CHECK_THROWS_WITH(unsqueeze(zeros({1, 1, 1, 1, 1, 1, 1, 1}), 0),
                    "shape: needs rank 0 to 8, got rank 9");
  CHECK_THROWS_WITH(flatten(x, 2, 1), "flatten: needs first <= last, got 2 and 1");
  CHECK_THROWS_WITH(slice(x, 0, 0, 2, 0), "slice: needs step >= 1, got 0; flip() reverses an axis");
  CHECK_THROWS_WITH(
      slice(x, 3, 0, 2),
      "slice: axis 3 is out of range for shape [2, 3, 4]; needs at least -3 and below 3");
  CHECK_THROWS_WITH(select(x, 1, 3), "select: index 3 is out of range for axis 1 of [2, 3, 4]");
  CHECK_THROWS_WITH(select(x, -1, -5), "select: index -5 is out of range for axis -1 of [2, 3, 4]");
  CHECK_THROWS_WITH(expect_shape(x, {2, 3}), "expect_shape: needs [2, 3], got [2, 3, 4]");
  CHECK(expect_shape(x, {2, 3, 4}).is_same(x));
}

}  // namespace
