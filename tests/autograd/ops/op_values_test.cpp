// Compares values of the elementwise ops, comparisons and selections with plain float64 loops: both
// dtypes, every layout, rank 0, size 0, and sizes that are divided into parallel chunks.

#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;

Tensor neg(const Tensor& x) { return -x; }
Tensor clamped(const Tensor& x) { return clamp(x, -0.5, 2); }
Tensor cube(const Tensor& x) { return pow(x, 3); }
Tensor power_0(const Tensor& x) { return pow(x, 0); }
Tensor power_half(const Tensor& x) { return pow(x, -0.5); }

const double kNaN = std::nan("");
struct Unary {
  const char* name;
  Tensor (*op)(const Tensor&);
  std::vector<std::pair<double, double>> values;  // x and f(x)
};
// unary_range_test.cpp has all other values.
const std::vector<Unary> kUnary = {
    {"neg", neg, {{1.25, -1.25}, {0, 0}, {kInf, -kInf}, {kNaN, kNaN}}},
    {"exp", exp, {{0, 1}, {1000, kInf}, {-1000, 0}}},
    {"log", log, {{1, 0}, {0, -kInf}, {kInf, kInf}, {-1, kNaN}}},
    {"sqrt", sqrt, {{0, 0}, {4, 2}, {kInf, kInf}, {-1, kNaN}}},
    {"rsqrt", rsqrt, {{0, kInf}, {4, 0.5}, {kInf, 0}}},
    {"abs", abs, {{0, 0}, {-kInf, kInf}, {kNaN, kNaN}}},
    {"relu", relu, {{0, 0}, {-kInf, 0}, {kNaN, kNaN}}},
    {"clamp", clamped, {{-0.5, -0.5}, {2, 2}, {kInf, 2}, {-kInf, -0.5}, {kNaN, kNaN}}},
    {"pow 3", cube, {{0, 0}, {-2, -8}, {1.5, 3.375}, {kInf, kInf}}},
    {"pow -0.5", power_half, {{0, kInf}, {-1, kNaN}, {4, 0.5}}},
    {"pow 0", power_0, {{0, 1}, {-5, 1}, {kNaN, 1}}},
    {"sigmoid", sigmoid, {{0, 0.5}}},
    {"tanh", tanh, {{0, 0}}},
    {"gelu", gelu, {{0, 0}}},
    {"gelu_tanh", gelu_tanh, {{0, 0}}},
    {"silu", silu, {{0, 0}}}};

TEST_CASE("functions of one operand at 0, at the ends of their range and at NaN") {
  for (const Unary& u : kUnary)
    for (const DType dtype : {float32, float64})
      for (const auto& [x, want] : u.values) {
        CAPTURE(u.name, dtype, x);
        CHECK(worst_error(u.op(full({}, x, dtype)), {want}, {std::abs(want)}) <= 4);
      }
}

struct Binary {
  const char* name;
  Tensor (*op)(const Tensor&, const Tensor&);
  double (*f)(double, double);
};
const std::vector<Binary> kBinary = {
    {"add", [](const Tensor& a, const Tensor& b) { return a + b; },
     [](double a, double b) { return a + b; }},
    {"sub", [](const Tensor& a, const Tensor& b) { return a - b; },
     [](double a, double b) { return a - b; }},
    {"mul", [](const Tensor& a, const Tensor& b) { return a * b; },
     [](double a, double b) { return a * b; }},
    {"div", [](const Tensor& a, const Tensor& b) { return a / b; },
     [](double a, double b) { return a / b; }},
    {"maximum", maximum, [](double a, double b) { return a > b ? a : b; }},
    {"minimum", minimum, [](double a, double b) { return a < b ? a : b; }},
    {"eq", eq, [](double a, double b) { return double(a == b); }},
    {"ne", ne, [](double a, double b) { return double(a != b); }},
    {"lt", lt, [](double a, double b) { return double(a < b); }},
    {"le", le, [](double a, double b) { return double(a <= b); }},
    {"gt", gt, [](double a, double b) { return double(a > b); }},
    {"ge", ge, [](double a, double b) { return double(a >= b); }}};

// Returns small integers, so that equal pairs occur and the result of every op except div is exact
// in float32.
Tensor small_integers(const Shape& shape, DType dtype, Generator& g) {
  return to(randint(1, 6, shape, g), dtype);
}

TEST_CASE("functions of two operands equal the plain function under broadcasting") {
  Generator random(3);
  const std::vector<std::array<Shape, 3>> cases = {{Shape{}, {}, {}},
                                                   {Shape{3}, {}, {3}},
                                                   {Shape{}, {2, 2}, {2, 2}},
                                                   {Shape{2, 3}, {2, 3}, {2, 3}},
                                                   {Shape{3, 1}, {1, 4}, {3, 4}},
                                                   {Shape{4}, {2, 3, 4}, {2, 3, 4}},
                                                   {Shape{0, 3}, {1, 3}, {0, 3}},
                                                   {Shape{2, 1, 3, 1}, {5, 1, 2}, {2, 5, 3, 2}},
                                                   {Shape{1}, {0}, {0}}};
  for (const Binary& op : kBinary)
    for (const DType dtype : {float32, float64})
      for (const auto& [sa, sb, shape] : cases) {
        CAPTURE(op.name, dtype, sa, sb);
        const Tensor a = small_integers(sa, dtype, random), b = small_integers(sb, dtype, random);
        const V va = values(a), vb = values(b);
        V want;
        for (Index i = 0; i < shape.numel(); ++i) {
          const Dims at = unravel(i, shape);
          const double v = op.f(va[place(at, sa)], vb[place(at, sb)]);
          want.push_back(dtype == float32 ? double(float(v)) : v);
        }
        for (const auto& [name_a, x] : layouts(a))
          for (const auto& [name_b, y] : layouts(b)) {
            CAPTURE(name_a, name_b);
            CHECK(op.op(x, y).shape() == shape);
            CHECK(values(op.op(x, y)) == want);
          }
        CHECK(values(op.op(expand(a, shape), expand(b, shape))) == want);
      }
}

TEST_CASE("a double operand takes the tensor's dtype, on either side") {
  const Tensor x = tensor({1, 2, 4});
  CHECK(values(x + 1.0) == V{2, 3, 5});
  CHECK(values(1.0 + x) == V{2, 3, 5});
  CHECK(values(x - 1.0) == V{0, 1, 3});
  CHECK(values(1.0 - x) == V{0, -1, -3});
  CHECK(values(x * 3.0) == V{3, 6, 12});
  CHECK(values(3.0 * x) == V{3, 6, 12});
  CHECK(values(x / 4.0) == V{0.25, 0.5, 1});
  CHECK(values(4.0 / x) == V{4, 2, 1});
  CHECK((x * 0.1).dtype() == float32);
  CHECK(values(x * 0.1)[0] == double(0.1f));
  CHECK(values(lt(x, 2.0)) == V{1, 0, 0});
  CHECK(values(ge(arange(4), 2.0)) == V{0, 0, 1, 1});
  CHECK(values(arange(3) * 2.0 + 1.0) == V{1, 3, 5});
}

TEST_CASE(
    "comparisons with NaN are false; maximum and minimum return NaN if either operand is NaN") {
  const Tensor a = tensor({std::nan(""), 1, 2}), b = tensor({1, std::nan(""), 3});
  for (auto* op : {&maximum, &minimum}) {
    const V y = values((*op)(a, b));
    CHECK(std::isnan(y[0]));
    CHECK(std::isnan(y[1]));
  }
  using Compare = Tensor (*)(const Tensor&, const Tensor&);
  for (const Compare op : {Compare(eq), Compare(lt), Compare(le), Compare(gt), Compare(ge)}) {
    CHECK(op(a, b).at({0}) == 0);
    CHECK(op(a, b).at({1}) == 0);
  }
  CHECK(values(isfinite(tensor({1, kInf, -kInf, std::nan("")}))) == V{1, 0, 0, 0});
  CHECK(!allclose(a, a));
  CHECK(allclose(tensor({kInf, 1}), tensor({kInf, 1})));
  CHECK(!allclose(tensor({kInf}), tensor({-kInf})));
  CHECK(!allclose(tensor({1}), tensor({kInf})));
  CHECK(allclose(tensor({1}, float64), tensor({1 + 1e-6}, float64)));
  CHECK(!allclose(tensor({1}, float64), tensor({1 + 1e-4}, float64)));
}

TEST_CASE("to converts every dtype to every other") {
  const V v{-1.75, 0, 0.5, 3};
  const Tensor x = from_data(v, {4});
  CHECK(values(to(x, float32)) == v);
  CHECK(to(x, int64).to_vector<std::int64_t>() == std::vector<std::int64_t>{-1, 0, 0, 3});
  CHECK(values(to(x, bool8)) == V{1, 0, 1, 1});
  CHECK(values(to(to(x, bool8), int64)) == V{1, 0, 1, 1});
  CHECK(to(x, float64).is_same(x));
  CHECK(values(to(flip(x, 0), float32)) == V{3, 0.5, 0, -1.75});
}

TEST_CASE("logic") {
  const Tensor a = from_data(std::vector<bool>{true, true, false, false}, {2, 2});
  const Tensor b = from_data(std::vector<bool>{true, false}, {2});
  CHECK(values(logical_and(a, b)) == V{1, 0, 0, 0});
  CHECK(values(logical_or(a, b)) == V{1, 1, 1, 0});
  CHECK(values(logical_not(a)) == V{0, 0, 1, 1});
}

TEST_CASE(
    "where and masked_fill equal plain indexing, also beside NaN and inf that are not selected") {
  Generator random(4);
  const Shape shape{3, 4, 2};
  const Tensor c = bernoulli(0.5, {4, 1}, random), a = randn(shape, float64, random);
  const Tensor b = randn({3, 1, 2}, float64, random);
  const V vc = values(c), va = values(a), vb = values(b);
  V chosen, filled;
  for (Index i = 0; i < shape.numel(); ++i) {
    const Dims at = unravel(i, shape);
    chosen.push_back(vc[place(at, c.shape())] != 0 ? va[std::size_t(i)] : vb[place(at, b.shape())]);
    filled.push_back(vc[place(at, c.shape())] != 0 ? -kInf : va[std::size_t(i)]);
  }
  for (const auto& [name, x] : layouts(a))
    for (const auto& [mask_name, mask] : layouts(c)) {
      CAPTURE(name, mask_name);
      CHECK(values(where(mask, x, b)) == chosen);
      CHECK(values(where(logical_not(mask), b, x)) == chosen);
      CHECK(values(masked_fill(x, mask, -kInf)) == filled);
    }
  const Tensor mask = from_data(std::vector<bool>{true, false}, {2});
  CHECK(values(where(mask, tensor({1, std::nan("")}), tensor({kInf, 2}))) == V{1, 2});
  CHECK(values(where(mask, arange(2), arange(5, 7))) == V{0, 6});
}

// The gradient 0 of an element that is not selected reaches sqrt, whose derivative at -1 is NaN.
TEST_CASE("where passes 0 to an operand that is not selected; its input must be selected first") {
  for (const DType dtype : {float32, float64})
    for (const bool create_graph : {false, true}) {
      const Tensor x = tensor({-1, 4}, dtype).requires_grad_();
      const Tensor positive = gt(x, 0);
      const auto gradient = [&](const Tensor& y) {
        const GradOptions options{.create_graph = create_graph, .retain_graph = true};
        return values(grad(sum(y), x, options).detach());
      };
      const Tensor root = sqrt(x), safe = sqrt(where(positive, x, full({}, 1, dtype)));
      for (const Tensor& y : {where(positive, root, x), masked_fill(root, le(x, 0), 0)})
        CHECK(std::isnan(gradient(y)[0]));
      CHECK(gradient(where(positive, safe, x)) == V{1, 0.25});
      CHECK(gradient(masked_fill(safe, le(x, 0), 0)) == V{0, 0.25});
    }
}

TEST_CASE("clamp, maximum and minimum pass the gradient of a NaN to the operand that is NaN") {
  const double nan = std::nan("");
  for (const DType dtype : {float32, float64})
    for (const bool create_graph : {false, true}) {
      const Tensor a = tensor({nan, 1, nan, 2, 3}, dtype).requires_grad_();
      const Tensor b = tensor({1, nan, nan, 2, 1}, dtype).requires_grad_();
      const auto of = [&](const Tensor& y, const Tensor& x) {
        return values(grad(sum(y), x, {.create_graph = create_graph}).detach());
      };
      CHECK(of(maximum(a, b), a) == V{1, 0, 0.5, 0.5, 1});
      CHECK(of(maximum(a, b), b) == V{0, 1, 0.5, 0.5, 0});
      CHECK(of(minimum(a, b), a) == V{1, 0, 0.5, 0.5, 0});
      CHECK(of(minimum(a, b), b) == V{0, 1, 0.5, 0.5, 1});
      CHECK(of(clamp(a, 1, 2), a) == V{0, 1, 0, 1, 0});
    }
}

TEST_CASE("tril, triu and tril_mask keep their side of a diagonal, for any sizes") {
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 5}, Shape{5, 2}, Shape{2, 3, 4}, Shape{0, 3}})
    for (Index k = -5; k <= 5; ++k) {
      CAPTURE(shape, k);
      const Tensor x = full(shape, std::nan(""));
      const V low = values(tril(x, k)), high = values(triu(x, k));
      const Index rows = shape[shape.rank() - 2], columns = shape.back();
      const V mask = values(tril_mask(rows, columns, k));
      for (std::size_t f = 0; f < low.size(); ++f) {
        const Index i = Index(f) / columns % rows, j = Index(f) % columns;
        CHECK(std::isnan(low[f]) == (j <= i + k));
        CHECK((std::isnan(low[f]) || low[f] == 0));  // 0 has replaced the NaN
        CHECK(std::isnan(high[f]) == (j >= i + k));
        CHECK((mask[std::size_t(i * columns + j)] != 0) == (j <= i + k));
      }
    }
}

TEST_CASE("int64 wraps around on overflow") {
  constexpr Index kMax = std::numeric_limits<Index>::max(), kMin = -kMax - 1;
  const auto ints = [](std::vector<Index> v) {
    const auto n = Index(v.size());
    return from_data(v, {n});
  };
  using I = std::vector<Index>;
  const Tensor x = ints({kMax, kMin, kMax}), y = ints({1, -1, kMax});
  CHECK((x + y).to_vector<std::int64_t>() == I{kMin, kMax, -2});
  CHECK((x - -1.0 * y).to_vector<std::int64_t>() == I{kMin, kMax, -2});
  CHECK((x * 2.0).to_vector<std::int64_t>() == I{-2, 0, -2});
  CHECK(sum(ints({kMax, kMax, kMax, 4})).to_vector<std::int64_t>() == I{kMin + 1});
  CHECK(sum(reshape(ints({kMax, 5, 1, 6}), {2, 2}), {0}).to_vector<std::int64_t>() == I{kMin, 11});
  const Tensor zero = zeros({3}, int64);
  CHECK(index_add(x, 0, ints({0, 0, 1}), y).to_vector<std::int64_t>() == I{kMax, -1, kMax});
  CHECK(scatter_add(x, 0, zero, ints({1, 0, 0})).to_vector<std::int64_t>() == I{kMin, kMin, kMax});
}

}  // namespace
