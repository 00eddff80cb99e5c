// Tests of the texts of shape, dtype and value errors, which are part of the interface.
// views_test.cpp tests the errors of views, and index_test.cpp tests the errors of indexing and
// joining. The test files of einsum, norms and losses test the errors of these ops.
#include "autograd/autograd.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;

const Tensor a = zeros({2, 3}), b = zeros({4, 5}), d = zeros({2, 3}, float64);
const Tensor ints = zeros({2, 3}, int64), mask = zeros({2, 3}, bool8), none;

TEST_CASE("errors of elementwise ops name both shapes or both dtypes") {
  CHECK_THROWS_WITH(a + b,
                    "add: shapes [2, 3] and [4, 5] do not broadcast: 3 against 5 in axis -1");
  CHECK_THROWS_AS(a / b, ShapeError);
  CHECK_THROWS_AS(maximum(a, b), ShapeError);
  CHECK_THROWS_AS(lt(a, b), ShapeError);
  CHECK_ERROR(DTypeError, a + d,
              "add: dtypes differ: float32 and float64; convert one with to(x, dtype)");
  CHECK_THROWS_WITH(mask + mask, "add: needs float32, float64 or int64, got bool8");
  CHECK_THROWS_WITH(ints / ints,
                    "div: cannot divide int64 tensors; convert them with to(x, dtype)");
  CHECK_THROWS_WITH(exp(ints), "exp: needs float32 or float64, got int64");
  CHECK_THROWS_WITH(clamp(a, 1, 0), "clamp: needs low <= high, got 1 and 0");
}

TEST_CASE("a fraction and an int64 tensor are an error, and the fraction is not rounded") {
  CHECK_THROWS_WITH(ints * 0.5, "mul: 0.5 is not an int64; convert the tensor with to(x, dtype)");
  CHECK_THROWS_WITH(1.5 + ints, "add: 1.5 is not an int64; convert the tensor with to(x, dtype)");
  CHECK_THROWS_WITH(lt(ints, 2.5), "lt: 2.5 is not an int64; convert the tensor with to(x, dtype)");
  CHECK_THROWS_AS(ge(ints, kInf), DTypeError);
  CHECK_THROWS_AS(eq(ints, std::nan("")), DTypeError);
  CHECK_THROWS_WITH(mean(ints), "mean: needs float32 or float64, got int64");
  CHECK_THROWS_WITH(var(ints), "var: needs float32 or float64, got int64");
}

TEST_CASE("a number outside the range of int64 is an error that names op and value") {
  const std::string range = " is outside the range of int64";
  CHECK_THROWS_WITH(full({2}, 1e19, int64), "full: 1e+19" + range);
  CHECK_THROWS_WITH(full({}, std::nan(""), int64), "full: nan" + range);
  CHECK_THROWS_WITH(tensor({1, -kInf}, int64), "tensor: -inf" + range);
  CHECK_THROWS_WITH(arange(0, 4e19, 1e19, int64), "arange: 1e+19" + range);
  CHECK_THROWS_WITH(masked_fill(ints, mask, kInf), "masked_fill: inf" + range);
  CHECK_THROWS_WITH(to(tensor({0x1p63}), int64), "to: 9.22337e+18" + range);
  CHECK_THROWS_AS(to(tensor({1, std::nan("")}, float64), int64), ValueError);
  CHECK(to(tensor({-0x1p63}), int64).item() == -0x1p63);
  const Tensor x = zeros({2}, int64);
  CHECK_THROWS_WITH(fill_(x, -1e19), "fill_: -1e+19" + range);
  CHECK(x.version() == 0);
}

TEST_CASE("negative and huge counts throw an Error of heed") {
  CHECK_THROWS_AS(bernoulli(0.5, {2, -1}), ShapeError);
  CHECK_THROWS_WITH(arange(0, 1e18), "arange: needs fewer than 2^40 elements, got 0 to 1e+18 by 1");
}

TEST_CASE("selection and logic require bool8") {
  CHECK_THROWS_WITH(where(a, a, a),
                    "where: needs a bool8 mask, got float32; compare first, as in "
                    "ne(mask, 0)");
  CHECK_THROWS_WITH(where(mask, a, d),
                    "where: dtypes differ: float32 and float64; convert one with to(x, dtype)");
  CHECK_THROWS_WITH(where(mask, a, b),
                    "where: shapes [2, 3] and [4, 5] do not broadcast: 3 against 5 in axis -1");
  CHECK_THROWS_WITH(masked_fill(a, ints, 0),
                    "masked_fill: needs a bool8 mask, got int64; compare "
                    "first, as in ne(mask, 0)");
  CHECK_THROWS_WITH(masked_fill(zeros({3}), mask, 0),
                    "masked_fill: mask [2, 3] does not broadcast to [3]");
  CHECK_THROWS_WITH(logical_and(mask, a), "logical_and: needs bool8, got float32");
  CHECK_THROWS_WITH(logical_not(a), "logical_not: needs bool8, got float32");
  CHECK_THROWS_WITH(any(a), "any: needs bool8, got float32");
  CHECK_THROWS_WITH(isfinite(ints), "isfinite: needs float32 or float64, got int64");
  CHECK_THROWS_WITH(allclose(a, b), "allclose: needs equal shapes, got [2, 3] and [4, 5]");
  CHECK_THROWS_WITH(tril(zeros({3})), "tril: needs rank >= 2, got [3]");
  CHECK_THROWS_WITH(tril_mask(-1, 2), "empty: sizes must be >= 0, got [-1, 2]");
}

TEST_CASE("errors of reductions name axis and shape") {
  CHECK_THROWS_WITH(sum(a, {2}),
                    "sum: axis 2 is out of range for shape [2, 3]; needs at least -2 and below 2");
  CHECK_THROWS_WITH(sum(a, {1, -1}), "sum: axis 1 appears twice in [1, -1] for shape [2, 3]");
  CHECK_THROWS_WITH(sum(mask), "sum: needs float32, float64 or int64, got bool8");
  CHECK_THROWS_WITH(max(zeros({2, 0}), {1}),
                    "max: has no elements to reduce: shape [2, 0], axes [1]");
  CHECK_THROWS_WITH(min(zeros({0})), "min: has no elements to reduce: shape [0], axes []");
  CHECK_THROWS_WITH(max(ints), "max: needs float32 or float64, got int64");
  CHECK_THROWS_WITH(argmax(zeros({0, 2}), 0),
                    "argmax: has no elements to reduce: shape [0, 2], axis 0");
  CHECK_THROWS_WITH(argmax(zeros({}), 0),
                    "argmax: axis 0 is out of range: a tensor of rank 0 has no axes");
  CHECK_THROWS_WITH(sum_to(a, {2, 2}),
                    "sum_to: shapes [2, 3] and [2, 2] do not broadcast: 3 against 2 in axis -1");
  CHECK_THROWS_WITH(sum_to(zeros({1}), {3}),
                    "sum_to: cannot sum [1] to [3], which does not broadcast to [1]");
  CHECK_THROWS_WITH(log_softmax(ints, 0), "log_softmax: needs float32 or float64, got int64");
  CHECK_THROWS_WITH(softmax(zeros({}), 0),
                    "softmax: axis 0 is out of range: a tensor of rank 0 has no axes");
}

TEST_CASE("errors of products name both shapes as the caller gave them") {
  CHECK_THROWS_WITH(matmul(a, b), "matmul: needs [..., m, k] x [..., k, n], got [2, 3] x [4, 5]");
  CHECK_THROWS_WITH(matmul(zeros({2}), b),
                    "matmul: needs [..., m, k] x [..., k, n], got [2] x [4, 5]");
  CHECK_THROWS_WITH(matmul(zeros({}), a), "matmul: needs rank >= 1, got [] x [2, 3]");
  CHECK_THROWS_WITH(matmul(zeros({2, 4, 3}), zeros({3, 3, 4})),
                    "matmul: shapes [2] and [3] do not broadcast: 2 against 3 in axis -1");
  CHECK_THROWS_WITH(matmul(a, zeros({3, 2}, float64)),
                    "matmul: dtypes differ: float32 and float64; convert one with to(x, dtype)");
  CHECK_THROWS_WITH(matmul(ints, mT(ints)), "matmul: needs float32 or float64, got int64");
  CHECK_THROWS_WITH(linear(a, b),
                    "linear: needs x [..., in] and weight [out, in], got [2, 3] and [4, 5]");
  CHECK_THROWS_WITH(linear(zeros({}), b),
                    "linear: needs x [..., in] and weight [out, in], got [] and [4, 5]");
  CHECK_THROWS_WITH(linear(a, zeros({4, 3}), zeros({3})), "linear: needs bias [4], got [3]");
  CHECK_THROWS_WITH(linear(a, zeros({4, 3}), zeros({4}, float64)),
                    "linear: dtypes differ: float32 and float64; convert one with to(x, dtype)");
}

TEST_CASE("errors of attention and of its masks") {
  CHECK_THROWS_WITH(attention(a, b, b),
                    "attention: needs q [..., Tq, d], k [..., Tk, d], v [..., Tk, d_value], got "
                    "[2, 3], [4, 5], [4, 5]");
  CHECK_THROWS_AS(attention(a, a, zeros({3, 3})), ShapeError);
  CHECK_THROWS_AS(attention(zeros({3}), a, a), ShapeError);
  CHECK_THROWS_AS(attention(a, a, a, {.keep = KeepMask(zeros({2, 5}, bool8))}), ShapeError);
  CHECK_THROWS_AS(attention(a, a, a, {.dropout = 2}), ValueError);
  CHECK_THROWS_AS(attention(a, d, a), DTypeError);
  CHECK_THROWS_WITH(KeepMask(a),
                    "KeepMask: needs bool8 (true = may attend), got float32; compare "
                    "first, as in ne(mask, 0)");
  CHECK_THROWS_WITH(KeepMask::padding(std::vector<Index>{2, 5}, 4),
                    "KeepMask::padding: length 5 of sequence 1 is outside 0 to 4");
  CHECK_THROWS_AS(!KeepMask(), ValueError);
  CHECK_THROWS_WITH(KeepMask::sliding_window(2, 2, 0),
                    "KeepMask::sliding_window: needs window > 0, got 0");
  CHECK_THROWS_WITH(attention(a, a, a, {.bias = ScoreBias::alibi(1, 2, 2, float64)}),
                    "attention: needs a bias of the queries' float32, got float64");
  CHECK_THROWS_WITH(ScoreBias::alibi(0, 2, 2), "ScoreBias::alibi: needs heads > 0, got 0");
}

TEST_CASE("a vjp with a wrong number, dtype or shape of gradients is an error that names the op") {
  const Op op({.name = "cube", .saves = Saves::kInputs, .samples = [](SampleGen& g) {
                 return Samples{{"one", [](Args t) { return t[0]; }, {g.normal({2})}}};
               }});
  const Tensor x = ones({2}, float64).requires_grad_();
  const auto with = [&](auto vjp) { backward(sum(record(op, {x}, x.detach() * 1.0, vjp))); };
  CHECK_THROWS_WITH(with([](const Vjp& v) -> Grads { return {v.input(3)}; }),
                    "cube: its vjp reads input 3; the op has 1 inputs");
  CHECK_THROWS_WITH(
      with([](const Vjp&) -> Grads { return {}; }),
      "cube: its vjp returned 0 gradients for 1 inputs; it must return one per input, {} for none");
  CHECK_THROWS_WITH(with([](const Vjp& v) {
                      return std::vector<Tensor>{v.grad, v.grad};
                    }),
                    Contains("returned 2 gradients for 1 inputs"));
  CHECK_THROWS_WITH(with([](const Vjp&) -> Grads { return {ones({2})}; }),
                    "cube: its vjp returned a gradient of float32 for input 0, needs float64");
  CHECK_THROWS_WITH(with([](const Vjp&) -> Grads { return {ones({3}, float64)}; }),
                    "cube: its vjp returned a gradient of shape [3] for input 0, needs [2]");
}

TEST_CASE("errors of creation functions") {
  CHECK_THROWS_WITH(empty({2, -1}), "empty: sizes must be >= 0, got [2, -1]");
  CHECK_THROWS_WITH(empty({1 << 30, 1 << 30}),
                    "empty: shape [1073741824, 1073741824] has more than 2^40 elements");
  CHECK_THROWS_WITH(from_data(std::vector<double>{1, 2, 3}, {2, 2}),
                    "from_data: shape [2, 2] holds 4 values, got 3");
  CHECK(tensor({{1}}).shape() == Shape{1, 1});
  CHECK_THROWS_WITH(tensor({{1, 2}, {3}}), "tensor: rows differ in length: 2 and 1");
  CHECK_THROWS_WITH(arange(0, 5, 0),
                    "arange: needs a finite range and a finite step other than 0, got 0 to 5 by 0");
  CHECK_THROWS_WITH(Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}), "shape: needs rank 0 to 8, got rank 9");
}

TEST_CASE("from_data accepts a vector of any integer type that fits int64") {
  const auto holds = [](const Tensor& x) {
    return x.dtype() == int64 && x.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 2};
  };
  CHECK(holds(from_data(std::vector<int>{1, 2}, 2)));
  CHECK(holds(from_data(std::vector<unsigned>{1, 2}, 2)));
  CHECK(holds(from_data(std::vector<std::uint8_t>{1, 2}, 2)));
  CHECK(holds(from_data(std::vector<long long>{1, 2}, 2)));
  CHECK(from_data(std::vector<bool>{true, false}, 2).dtype() == bool8);
  CHECK(from_data(std::vector<float>{1, 2}, 2).dtype() == float32);
}

// True if var(x, {0}, third) compiles.
template <class T>
concept VarTakes = requires(const Tensor& x, T third) {
  var(x, {0}, third);
};

TEST_CASE("var accepts correction and keepdim by name, never as a bare bool") {
  static_assert(VarTakes<VarOptions> && !VarTakes<bool> && !VarTakes<int>);
  const Tensor x = tensor({{1, 3}, {5, 7}}, float64);
  CHECK(var(x, 1).to_vector<double>() == std::vector<double>{2, 2});
  CHECK(var(x, 1, {.correction = 0}).to_vector<double>() == std::vector<double>{1, 1});
  CHECK(var(x, 1, {.keepdim = true}).shape() == Shape{2, 1});
}

TEST_CASE("errors of methods that inspect a tensor") {
  CHECK_THROWS_WITH(a.item(), "item: needs one element, got shape [2, 3]");
  CHECK_THROWS_WITH(a.at({1}), "at: needs 2 indices for shape [2, 3], got 1");
  CHECK_THROWS_WITH(a.at({0, 3}), "at: index 3 is out of range for axis 1 of [2, 3]");
  CHECK_THROWS_WITH(a.size(2),
                    "size: axis 2 is out of range for shape [2, 3]; needs at least -2 and below 2");
  CHECK_THROWS_WITH(
      a.data<double>(),
      "data: requested float64 from a float32 tensor; convert the tensor with to(x, dtype)");
}

TEST_CASE("an undefined tensor is an error everywhere, never a crash") {
  const char* text = "tensor: is undefined (default-constructed)";
  CHECK_THROWS_WITH(none.shape(), text);
  CHECK_THROWS_WITH(none.dtype(), text);
  CHECK_THROWS_WITH(none.version(), text);
  CHECK_THROWS_WITH(none.detach(), text);
  CHECK_THROWS_WITH(none.grad(), text);
  CHECK_THROWS_WITH(none.zero_grad(), text);
  CHECK_THROWS_WITH(none.is_leaf(), text);
  CHECK_THROWS_AS(none.requires_grad_(), ValueError);
  CHECK_THROWS_AS(none.retain_grad(), ValueError);
  CHECK_THROWS_AS(none.item(), ValueError);
  CHECK(!none.requires_grad());
  CHECK(!none.shares_storage(a));
  CHECK_THROWS_AS(backward(none), ValueError);
  CHECK_THROWS_AS(grad(none, {a}), ValueError);
  CHECK_THROWS_AS(grad(sum(zeros({1}).requires_grad_()), {none}), ValueError);
  CHECK_THROWS_AS(none + a, ValueError);
  CHECK_THROWS_AS(attention(a, none, a), ValueError);
  CHECK_THROWS_AS(fill_(none, 1), ValueError);
  CHECK_THROWS_AS(copy_(a, none), ValueError);
  CHECK_THROWS_AS(KeepMask(none), ValueError);
}

}  // namespace
