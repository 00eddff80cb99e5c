// Compares values of reductions, softmax and products with plain loops in long double.
#include "autograd/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/layouts.h"

namespace {

using namespace heed::autograd;
using namespace testing;

double error(const Tensor& got, const V& want, double scale) {
  return worst_error(got, want, V(want.size(), scale));
}

// For each output, applies f to the elements that are reduced to this output. Finds them by plain
// indexing.
V reduce(const Tensor& x, const Dims& axes, const std::function<double(const V&)>& f) {
  Shape ones = x.shape();
  for (int i = 0; i < x.rank(); ++i)
    for (const Index a : axes.rank() ? axes : Dims::filled(1, i))
      if ((a + x.rank()) % x.rank() == i) ones[i] = 1;
  std::vector<V> groups(std::size_t(ones.numel()));
  const V v = values(x);
  for (Index i = 0; i < x.numel(); ++i)
    groups[place(unravel(i, x.shape()), ones)].push_back(v[std::size_t(i)]);
  V out;
  for (const V& g : groups) out.push_back(f(g));
  return out;
}

double plain_sum(const V& v) {
  long double s = 0;
  for (const double x : v) s += x;
  return double(s);
}
double plain_mean(const V& v) { return plain_sum(v) / double(v.size()); }
double plain_var(const V& v, int correction) {
  long double s = 0;
  for (const double x : v) s += (x - plain_mean(v)) * (x - plain_mean(v));
  return double(s / (long double)(double(v.size()) - correction));
}
double plain_logsumexp(const V& v) {
  const double top = v.empty() ? 0 : *std::max_element(v.begin(), v.end());
  long double s = 0;
  for (const double x : v) s += std::exp((long double)(x)-top);
  return double(std::log(s)) + top;
}

const std::vector<Dims> kAxes = {{}, {0}, {1}, {2}, {-1}, {0, 1}, {1, 2}, {2, 0}, {0, 1, 2}};

TEST_CASE("reductions equal plain loops over every set of axes, in every layout") {
  Generator random(1);
  struct Reduction {
    const char* name;
    std::function<Tensor(const Tensor&, const Dims&, bool)> op;
    std::function<double(const V&)> f;
    double roundoffs, scale;
  };
  using F = Tensor (*)(const Tensor&, const Dims&, bool);
  const std::vector<Reduction> all = {
      {"sum", F(sum), plain_sum, 2, 60},
      {"mean", F(mean), plain_mean, 4, 2},
      {"var", [](const Tensor& x, const Dims& a, bool k) { return var(x, a, {.keepdim = k}); },
       [](const V& v) { return plain_var(v, 1); }, 16, 2},
      {"var 0",
       [](const Tensor& x, const Dims& a, bool k) {
         return var(x, a, {.correction = 0, .keepdim = k});
       },
       [](const V& v) { return plain_var(v, 0); }, 16, 2},
      {"max", F(max), [](const V& v) { return *std::max_element(v.begin(), v.end()); }, 0, 1},
      {"min", F(min), [](const V& v) { return *std::min_element(v.begin(), v.end()); }, 0, 1},
      {"logsumexp", F(logsumexp), plain_logsumexp, 8, 2}};
  for (const Reduction& r : all)
    for (const DType dtype : {float32, float64})
      for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 70, 3}, Shape{3, 2, 130}}) {
        const Tensor x = randn(shape, dtype, random);
        for (const Dims& axes : kAxes) {
          const V want = reduce(x, axes, r.f);
          for (const auto& [layout, laid_out] : layouts(x)) {
            CAPTURE(r.name, dtype, shape, axes, layout);
            CHECK(error(r.op(laid_out, axes, false), want, r.scale) <= r.roundoffs);
            const Tensor kept = r.op(laid_out, axes, true);
            CHECK(kept.rank() == 3);
            CHECK(values(kept) == values(r.op(laid_out, axes, false)));
          }
        }
        // Also checks an operand with stride 0.
        const Tensor wide = expand(slice(x, 1, 0, 1), shape);
        for (const Dims& axes : kAxes) {
          const V want = reduce(wide, axes, r.f);
          double largest = 0;
          for (const double w : want) largest = std::max(largest, std::abs(w));
          CHECK(error(r.op(wide, axes, false), want, r.scale + 4 * largest) <= 4 * r.roundoffs);
        }
      }
}

TEST_CASE("reductions of rank 0 and of no elements") {
  for (const DType dtype : {float32, float64}) {
    const Tensor s = full({}, 3, dtype), none = zeros({2, 0}, dtype);
    for (const Tensor& y : {sum(s), mean(s), max(s), min(s), logsumexp(s)}) {
      CHECK(y.item() == 3);
      CHECK(y.shape() == Shape{});
    }
    CHECK(values(sum(none, {1})) == V{0, 0});
    CHECK(sum(none, {0}).shape() == Shape{0});
    CHECK(sum(none).item() == 0);
    CHECK(values(logsumexp(none, {1})) == V{-kInf, -kInf});
    CHECK(std::isnan(mean(none).item()));
    CHECK(max(none, {0}).shape() == Shape{0});
  }
}

TEST_CASE("max and min return NaN for NaN; logsumexp is right at +-inf") {
  CHECK(std::isnan(max(tensor({1, std::nan(""), 2})).item()));
  CHECK(std::isnan(min(tensor({std::nan(""), 1, 2})).item()));
  CHECK(max(tensor({-kInf, -kInf})).item() == -kInf);
  CHECK(logsumexp(tensor({1, kInf, 2}, float64)).item() == kInf);
  CHECK(logsumexp(tensor({-kInf, 5}, float64)).item() == 5);
  CHECK(std::isnan(logsumexp(tensor({1, std::nan("")})).item()));
}

TEST_CASE("max and min share the gradient of ties evenly") {
  const Tensor x = tensor({{1, 3, 3}, {2, 2, 2}}, float64).requires_grad_();
  CHECK(values(grad(sum(max(x, {1})), {x})[0]) == V{0, 0.5, 0.5, 1 / 3., 1 / 3., 1 / 3.});
  CHECK(values(grad(min(x), {x})[0]) == V{1, 0, 0, 0, 0, 0});
}

TEST_CASE("max and min pass the gradient to the elements that are NaN") {
  const double nan = std::nan("");
  for (const DType dtype : {float32, float64})
    for (const bool create_graph : {false, true})
      for (const auto& [layout, data] :
           layouts(tensor({{nan, 1, 2}, {3, nan, nan}, {3, 1, 2}}, dtype))) {
        CAPTURE(dtype, create_graph, layout);
        const Tensor x = data.detach().requires_grad_();
        const auto of = [&](const Tensor& y) {
          return values(grad(sum(y), x, {.create_graph = create_graph}).detach());
        };
        CHECK(of(max(x, {1})) == V{1, 0, 0, 0, 0.5, 0.5, 1, 0, 0});
        CHECK(of(min(x, {1})) == V{1, 0, 0, 0, 0.5, 0.5, 0, 1, 0});
        CHECK(of(max(x, {0})) == V{1, 0, 0, 0, 1, 1, 0, 0, 0});
        const double third = (full({}, 1, dtype) / 3.0).item();
        for (const Tensor& y : {max(x), min(x)})
          CHECK(of(y) == V{third, 0, 0, 0, third, third, 0, 0, 0});
        CHECK(values(argmax(x, 1)) == V{0, 1, 0});
        CHECK(values(argmax(x, 0)) == V{0, 1, 1});
      }
}

TEST_CASE("var divides only by a positive n - correction") {
  const Tensor x = tensor({1, 2, 4}, float64);
  CHECK_ERROR(ValueError, var(x, {}, {.correction = 5}),
              "var: divides by n - correction, got n = 3 elements and correction = 5; reduce more "
              "elements or set a smaller correction");
  for (const DType dtype : {float32, float64}) {
    CHECK_THROWS_AS(var(zeros({4}, dtype), {}, {.correction = 4}), ValueError);
    CHECK_THROWS_AS(var(zeros({4, 1}, dtype), {1}), ValueError);
    CHECK_THROWS_AS(var(zeros({}, dtype)), ValueError);
    CHECK_THROWS_AS(var(zeros({0, 2}, dtype), {0}, {.correction = 0}), ValueError);
    CHECK(var(zeros({0, 2}, dtype), {1}).shape() == Shape{0});
    CHECK(var(zeros({1}, dtype), {}, {.correction = 0}).item() == 0);
    CHECK(var(to(x, dtype), {}, {.correction = -4}).item() == Approx(2 / 3.));
  }
}

TEST_CASE("argmax is the index of the first largest element along an axis") {
  const Tensor x = tensor({{1, 5, 5}, {7, 2, 7}});
  CHECK(values(argmax(x, 1)) == V{1, 0});
  CHECK(values(argmax(mT(x), 0)) == V{1, 0});
  CHECK(values(argmax(flip(x, 1), -1)) == V{0, 0});
  CHECK(argmax(x, 0, true).shape() == Shape{1, 3});
  CHECK(argmax(x, 0).dtype() == int64);
}

// accumulation_test.cpp compares rows, the last axis, with formulas.
TEST_CASE("softmax and log_softmax along any axis equal those of the rows that have this axis") {
  Generator random(2);
  for (const DType dtype : {float32, float64})
    for (const Shape& shape : {Shape{7}, Shape{3, 5}, Shape{2, 3, 40}, Shape{4, 1, 2}}) {
      const Tensor x = randn(shape, dtype, random) * 4.0;
      for (int axis = -shape.rank(); axis < shape.rank(); ++axis)
        for (const auto f : {softmax, log_softmax}) {
          CAPTURE(dtype, shape, axis);
          const Tensor rows = f(contiguous(transpose(x, axis, -1)), -1);
          CHECK(error(f(x, axis), values(transpose(rows, axis, -1)), 1) <= 8);
        }
    }
}

// Computes matmul of matrices with leading axes by its definition, in long double.
V product(const Tensor& a, const Tensor& b, const Shape& batch, Index m, Index n) {
  const Index k = a.size(-1);
  const V va = values(a), vb = values(b);
  V out;
  for (Index o = 0; o < batch.numel(); ++o) {
    const Dims at = unravel(o, batch);
    const std::size_t pa = place(at, a.shape().sub(0, a.rank() - 2)),
                      pb = place(at, b.shape().sub(0, b.rank() - 2));
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) {
        long double s = 0;
        for (Index l = 0; l < k; ++l)
          s += (long double)(va[std::size_t((Index(pa) * m + i) * k + l)]) *
               vb[std::size_t((Index(pb) * k + l) * n + j)];
        out.push_back(double(s));
      }
  }
  return out;
}

TEST_CASE(
    "matmul equals its definition for vectors, matrices, broadcast batches, sizes 0 and all "
    "layouts") {
  struct Case {
    Shape a, b, batch, out;
    Index m, n;
  };
  const std::vector<Case> cases = {
      {{3}, {3}, {}, {}, 1, 1},
      {{2, 3}, {3}, {}, {2}, 2, 1},
      {{3}, {3, 4}, {}, {4}, 1, 4},
      {{3}, {5, 3, 4}, {5}, {5, 4}, 1, 4},
      {{5, 2, 3}, {3}, {5}, {5, 2}, 2, 1},
      {{2, 3}, {3, 4}, {}, {2, 4}, 2, 4},
      {{3, 8, 4}, {3, 3, 4, 8}, {3, 3}, {3, 3, 8, 8}, 8, 8},  // notebooks/4_from_scalars.cpp
      {{2, 1, 3, 5}, {4, 5, 2}, {2, 4}, {2, 4, 3, 2}, 3, 2},
      {{2, 1, 2, 3, 4}, {3, 1, 4, 2}, {2, 3, 2}, {2, 3, 2, 3, 2}, 3, 2},
      {{2, 0}, {0, 3}, {}, {2, 3}, 2, 3},
      {{0, 3}, {3, 2}, {}, {0, 2}, 0, 2},
      {{0, 2, 3}, {3, 2}, {0}, {0, 2, 2}, 2, 2},
      {{13, 65}, {65, 33}, {}, {13, 33}, 13, 33}};
  Generator random(4);
  for (const DType dtype : {float32, float64})
    for (const Case& c : cases) {
      const Tensor a = randn(c.a, dtype, random), b = randn(c.b, dtype, random);
      const Tensor ma = a.rank() == 1 ? unsqueeze(a, 0) : a,
                   mb = b.rank() == 1 ? unsqueeze(b, 1) : b;
      const V want = product(ma, mb, c.batch, c.m, c.n);
      const double scale = double(a.size(-1)) * 4 + 1;
      for (const auto& [name_a, x] : layouts(a))
        for (const auto& [name_b, y] : layouts(b)) {
          CAPTURE(dtype, c.a, c.b, name_a, name_b);
          CHECK(matmul(x, y).shape() == c.out);
          CHECK(error(matmul(x, y), want, scale) <= 8);
        }
    }
}

TEST_CASE("linear is x W^T + b, also without rows, inputs or outputs") {
  Generator random(5);
  for (const Shape& lead : {Shape{}, Shape{4}, Shape{2, 3}, Shape{0}})
    for (const Index in : {0, 1, 5})
      for (const Index out : {0, 1, 7}) {
        CAPTURE(lead, in, out);
        Shape shape = lead;
        shape.push_back(in);
        const Tensor x = randn(shape, float64, random), w = randn({out, in}, float64, random);
        const Tensor b = randn({out}, float64, random), want = sum(unsqueeze(x, -2) * w, {-1});
        REQUIRE(linear(x, w, b).shape() == want.shape());
        CHECK(allclose(linear(x, w, b), want + b, 1e-13, 1e-13));
        CHECK(allclose(linear(x, w), want, 1e-13, 1e-13));
      }
}

TEST_CASE("any and all") {
  const Tensor a = from_data(std::vector<bool>{true, true, false, false}, {2, 2});
  CHECK(values(any(a, {1})) == V{1, 0});
  CHECK(values(all(mT(a), {0})) == V{1, 0});
  CHECK(any(a).item() == 1);
  CHECK(all(a).item() == 0);
  CHECK(values(any(zeros({2, 0}, bool8), {1})) == V{0, 0});
  CHECK(values(all(zeros({2, 0}, bool8), {1}, true)) == V{1, 1});
  // The 200 rows of 3 columns are divided among the threads.
  const Tensor last = ge(reshape(arange(600), {200, 3}), 598.0);
  CHECK(values(any(last, {0})) == V{0, 1, 1});
  CHECK(values(all(logical_not(last), {0})) == V{1, 0, 0});
}

}  // namespace
