// Tests of eigenvalues() on matrices with known spectra.
#include "nn/study/eigenvalues.h"

#include <algorithm>
#include <numbers>

#include "autograd/autograd.h"
#include "tests/support/catch.h"

namespace {

using namespace heed::autograd;
using heed::nn::eigenvalues;
using Values = std::vector<std::complex<double>>;

// Returns the largest distance from an expected value to the found value that corresponds to it.
double distance(Values found, const Values& expected) {
  REQUIRE(found.size() == expected.size());
  double largest = 0;
  for (const auto& value : expected) {
    const auto nearest = std::ranges::min_element(
        found, {}, [&](const auto& other) { return std::abs(other - value); });
    largest = std::max(largest, std::abs(*nearest - value));
    found.erase(nearest);
  }
  return largest;
}

Tensor jordan_block(std::int64_t n, double value) {
  const Tensor a = eye(n, -1, float64) * value;
  for (std::int64_t i = 0; i + 1 < n; ++i)
    copy_(slice(slice(a, 0, i, i + 1), 1, i + 1, i + 2), ones({1, 1}, float64));
  return a;
}

TEST_CASE("eigenvalues of matrices with known spectra") {
  CHECK(eigenvalues(zeros({0, 0}, float64)).empty());
  CHECK(distance(eigenvalues(full({1, 1}, 3, float64)), {3}) == 0);
  CHECK(distance(eigenvalues(zeros({4, 4}, float64)), {0, 0, 0, 0}) == 0);
  CHECK(distance(eigenvalues(tensor({{0, 1}, {-1, 0}}, float64)), {{0, 1}, {0, -1}}) < 1e-15);
  CHECK(distance(eigenvalues(tensor({{2, 1}, {1, 2}}, float32)), {1, 3}) < 1e-15);
  // The companion matrix of (x - 1)(x - 2)(x - 3)(x^2 + 1).
  CHECK(distance(eigenvalues(tensor({{6, -12, 12, -11, 6},
                                     {1, 0, 0, 0, 0},
                                     {0, 1, 0, 0, 0},
                                     {0, 0, 1, 0, 0},
                                     {0, 0, 0, 1, 0}},
                                    float64)),
                 {1, 2, 3, {0, 1}, {0, -1}}) < 1e-12);
}

TEST_CASE("eigenvalues of a cyclic permutation are roots of unity") {
  // Without the exceptional shifts, the QR algorithm does not change this matrix.
  for (const std::int64_t n : {3, 4, 7, 12}) {
    const Tensor one = eye(n, -1, float64);
    const Tensor cycle = cat({slice(one, 1, n - 1, n), slice(one, 1, 0, n - 1)}, 1);
    Values roots;
    for (std::int64_t k = 0; k < n; ++k)
      roots.push_back(std::polar(1.0, 2 * std::numbers::pi * double(k) / double(n)));
    CHECK(distance(eigenvalues(cycle), roots) < 1e-13);
  }
}

TEST_CASE("eigenvalues of defective matrices") {
  CHECK(distance(eigenvalues(jordan_block(4, 2)), {2, 2, 2, 2}) < 1e-14);
  // Rank 2 of 8: six values are 0.
  Generator g(2);
  const Tensor thin = randn({8, 2}, float64, g), wide = randn({2, 8}, float64, g);
  Values expected = eigenvalues(matmul(wide, thin));
  expected.resize(8);
  CHECK(distance(eigenvalues(matmul(thin, wide)), expected) < 1e-12);
}

TEST_CASE("sums of eigenvalues and of their powers are traces") {
  Generator g(7);
  for (const std::int64_t n : {2, 5, 33, 64}) {
    const Tensor a = randn({n, n}, float64, g);
    std::complex<double> total = 0, squares = 0, cubes = 0;
    for (const auto& x : eigenvalues(a)) total += x, squares += x * x, cubes += x * x * x;
    const Tensor a2 = matmul(a, a);
    const auto trace = [](const Tensor& x) { return sum(diagonal(x)).item(); };
    const double scale = std::pow(double(n), 1.5);
    CHECK(std::abs(total - trace(a)) < 1e-12 * scale);
    CHECK(std::abs(squares - trace(a2)) < 1e-12 * scale * scale);
    CHECK(std::abs(cubes - trace(matmul(a, a2))) < 1e-12 * scale * scale * scale);
    CHECK(distance(eigenvalues(a), eigenvalues(mT(a))) < 1e-10);
  }
}

TEST_CASE("eigenvalues need a square matrix; values that are not finite stay so") {
  CHECK_THROWS_WITH(eigenvalues(zeros({2, 3}, float64)), Contains("needs a square matrix"));
  for (const auto& x : eigenvalues(full({3, 3}, NAN, float64))) CHECK(std::isnan(x.real()));
}

}  // namespace
