// exp, tanh, erf and gelu of float32 against the rounded exact value, on every SIMD target: one in
// 97 of all bit patterns, and all 2^32 under label soak.
#include <bit>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <numbers>
#include <vector>

#include "autograd/base/parallel.h"
#include "autograd/kernels/simd/rows.h"
#include "tests/support/catch.h"
#include "tests/support/simd_targets.h"

namespace {

using namespace heed::autograd;

struct Function {
  const char* name;
  void (*kernel)(float* y, const float* x, std::int64_t n);
  double (*exact)(double x);
  double allowed;           // ulp
  double from = -HUGE_VAL;  // below it, the error is at most `absolute` * |x| instead
  double absolute = 0;
};
const Function kFunctions[] = {
    {"exp", kernels::simd::exp, std::exp, 2},
    {"tanh", kernels::simd::tanh, std::tanh, 5},
    {"erf", kernels::simd::erf, std::erf, 2},
    // Phi(-4.2) is 1e-5. x = -inf gives NaN, as -inf * 0 does.
    {"gelu", kernels::simd::gelu,
     [](double x) { return x * (0.5 * std::erfc(-x * (std::numbers::sqrt2 / 2))); }, 8, -4.2,
     1e-12}};

// In ulp of the exact value; where that is below the smallest normal number, so may y be.
double error_of(const Function& f, float x, float y, double exact) {
  const float rounded = float(exact);
  if (std::isnan(rounded)) return std::isnan(y) ? 0 : HUGE_VAL;
  if (double(x) < f.from)
    return std::abs(double(y) - exact) <= f.absolute * std::abs(x) ? 0 : HUGE_VAL;
  if (std::isinf(rounded)) return y == rounded ? 0 : HUGE_VAL;
  constexpr float kSmallest = 1.2e-38f;
  if (std::abs(rounded) < kSmallest) return std::abs(y - rounded) <= kSmallest ? 0 : HUGE_VAL;
  const double above = std::nextafter(std::abs(rounded), HUGE_VALF);
  const double error = std::abs(double(y) - exact) / (above - std::abs(double(rounded)));
  return error <= HUGE_VAL ? error : HUGE_VAL;  // NaN is the largest
}

// The largest error of each target over every `step`-th float.
std::vector<double> largest_errors(const Function& f, const std::vector<std::string>& targets,
                                   std::uint64_t step) {
  constexpr std::int64_t kChunk = 1 << 20, kGrain = 1 << 15;
  std::vector<float> x(kChunk), y(kChunk);
  std::vector<double> exact(kChunk), largest(targets.size(), 0.0);
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += step * kChunk) {
    const auto count = std::min<std::int64_t>(
        kChunk, std::int64_t(((std::uint64_t{1} << 32) - first + step - 1) / step));
    parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto k = std::size_t(i);
        x[k] = std::bit_cast<float>(std::uint32_t(first + std::uint64_t(i) * step));
        exact[k] = f.exact(double(x[k]));
      }
    });
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const testing::OnTarget here(targets[t]);
      std::vector<double> worst(std::size_t((count + kGrain - 1) / kGrain), 0.0);
      parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
        f.kernel(&y[std::size_t(begin)], &x[std::size_t(begin)], end - begin);
        double& w = worst[std::size_t(begin / kGrain)];
        for (auto k = std::size_t(begin); k < std::size_t(end); ++k)
          w = std::max(w, error_of(f, x[k], y[k], exact[k]));
      });
      for (const double w : worst) largest[t] = std::max(largest[t], w);
    }
  }
  return largest;
}

void check_all(std::uint64_t step, bool print) {
  std::vector<std::string> targets = kernels::simd_targets();
  targets.pop_back();  // scalar: libm's own
  for (const Function& f : kFunctions) {
    const std::vector<double> largest = largest_errors(f, targets, step);
    for (std::size_t t = 0; t < targets.size(); ++t) {
      CAPTURE(f.name, targets[t], largest[t]);
      CHECK(largest[t] <= f.allowed);
      if (print)
        std::cout << f.name << " " << targets[t] << " " << largest[t] << " ulp" << std::endl;
    }
  }
}

TEST_CASE("exp, tanh, erf and gelu keep their error bounds") { check_all(97, false); }
TEST_CASE("exp, tanh, erf and gelu keep their error bounds over all floats", "[all_floats]") {
  check_all(1, true);
}

}  // namespace
