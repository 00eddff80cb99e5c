// Tests of check_vjp with functions whose rounding error is large.
#include <cmath>
#include <cstddef>

#include "autograd/tensor/random.h"
#include "tests/support/vjp_pairs.h"

using namespace heed::autograd;
using namespace heed::autograd::testing;

namespace {

// Checks y[k F + j] = sin(x[k] + j), where each entry moves F outputs, with the gradient of entry
// n / 2 multiplied by `factor`. At most 64 entries are compared one by one.
template <class T>
CheckReport check_sines(std::size_t n, std::size_t fan_out, double factor, std::uint64_t seed) {
  Arrays<T> x(1);
  for (std::size_t k = 0; k < n; ++k)
    x[0].push_back(T(k == n / 2 ? 0.8 : 2 * std::sin(double(k + 1))));
  const ForwardFunction<T> forward = [=](const Arrays<T>& a) {
    Arrays<T> y(1);
    for (const T e : a[0])
      for (std::size_t j = 0; j < fan_out; ++j) y[0].push_back(std::sin(e + T(j)));
    return y;
  };
  const BackwardFunction<T> backward = [=](const Arrays<T>& a, const Arrays<T>& v) {
    Arrays<T> g(1, std::vector<T>(n));
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t j = 0; j < fan_out; ++j)
        g[0][k] += v[0][k * fan_out + j] * std::cos(a[0][k] + T(j));
      if (k == n / 2) g[0][k] *= T(factor);
    }
    return g;
  };
  return check_vjp<T>(forward, backward, x, {.seed = seed, .max_entries = 64});
}

TEMPLATE_TEST_CASE("the smallest error that is found in one entry does not grow with their number",
                   "", float, double) {
  for (const std::size_t fan_out : {1u, 16u}) {
    double found = 1;  // smallest error that is found if there is only one entry
    while (found > 1e-16 && !check_sines<TestType>(1, fan_out, 1 + found / 2, 1).ok()) found /= 2;
    CAPTURE(fan_out, found);
    CHECK(found < (sizeof(TestType) == 4 ? 1e-3 : 1e-8));
    for (const std::size_t n : {10u, 600u, 10000u}) {
      if (n * fan_out > (kSanitized ? 1000 : 10000)) continue;
      CAPTURE(n);
      CHECK(check_sines<TestType>(n, fan_out, 1, 1).ok());
      for (const std::uint64_t seed : {1u, 2u})
        CHECK(check_sines<TestType>(n, fan_out, 1 + 4 * found, seed).verdict == Verdict::kWrong);
    }
  }
}

TEMPLATE_TEST_CASE("no entry of a linear function of thousands of outputs seems to be on a kink",
                   "", float, double) {
  using T = TestType;
  constexpr std::size_t kOutputs = kSanitized ? 1000 : 12000;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    Generator random(seed);
    std::vector<T> matrix[2] = {std::vector<T>(kOutputs), std::vector<T>(kOutputs)};
    for (std::vector<T>& column : matrix)
      for (T& e : column) e = T(2 * random.uniform_double() - 1);
    const auto forward = [&](const Arrays<T>& x) {
      Arrays<T> y = {matrix[0]};
      for (std::size_t o = 0; o < kOutputs; ++o)
        y[0][o] = matrix[0][o] * x[0][0] + matrix[1][o] * x[0][1];
      return y;
    };
    const auto check = [&](double factor) {
      const auto backward = [&](const Arrays<T>& x, const Arrays<T>& v) {
        Arrays<T> g = x;
        for (std::size_t k : {0u, 1u})
          g[0][k] = T((k == 0 ? 1 : factor) *
                      std::inner_product(v[0].begin(), v[0].end(), matrix[k].begin(), 0.0));
        return g;
      };
      return check_vjp<T>(forward, backward, {{T(0.3456), T(0.8216)}});
    };
    const CheckReport right = check(1);
    CAPTURE(seed, right);
    CHECK((right.ok() && right.moved.empty()));
    CHECK(check(2).verdict == Verdict::kWrong);
  }
}

}  // namespace
