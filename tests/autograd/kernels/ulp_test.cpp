// Measures the errors of the float32 kernels of exp, tanh, gelu, gelu_tanh and silu, and of
// the slopes of the last three, on every SIMD target. The normal test uses every 997th bit pattern;
// the test with the label soak uses all 2^32.
#include <bit>

#include "autograd/base/parallel.h"
#include "autograd/kernels/reference/smooth.h"
#include "autograd/kernels/simd/elementwise.h"
#include "tests/support/catch.h"
#include "tests/support/simd_targets.h"

namespace {

using namespace heed::autograd;

namespace reference = kernels::reference;

// A kernel, the exact function, and the largest allowed error of the kernel in ulp.
struct Function {
  const char* name;
  void (*kernel)(float* y, const float* x, Index n);
  double (*exact)(double x);
  double allowed;
  double zero = 0;  // within 1 % of this x, terms that are at most 1/4 cancel
};
// Computes the slope at each x with a backward kernel.
template <auto backward>
void slope(float* y, const float* x, Index n) {
  backward(y, std::vector<float>(std::size_t(n), 1.0f).data(), x, n);
}
// tests/autograd/ops/unary_range_test.cpp compares the references with right values.
const Function kFunctions[] = {
    {"exp", kernels::simd::exp, std::exp, 2},
    {"tanh", kernels::simd::tanh, std::tanh, 4},
    {"gelu", kernels::simd::gelu, reference::Gelu::value, 4},
    {"gelu_tanh", kernels::simd::gelu_tanh, reference::GeluTanh::value, 1},
    {"silu", kernels::simd::silu, reference::Silu::value, 4},
    {"gelu slope", slope<kernels::simd::gelu_backward>, reference::Gelu::slope, 4, -0.7517915},
    {"gelu_tanh slope", slope<kernels::simd::gelu_tanh_backward>, reference::GeluTanh::slope, 1,
     -0.7524614},
    {"silu slope", slope<kernels::simd::silu_backward>, reference::Silu::slope, 1, -1.2784645}};

// Returns the unit in the last place of a normal number.
double ulp(float x) {
  return 0x1p-23 * double(std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7f800000u));
}
constexpr float kSmallest = 1.2e-38f;  // slightly above the smallest normal number

// Returns the error of y in ulp of the exact value. There are three special cases: the exact value
// is NaN, infinite or close to 0 (below kSmallest), or x is near f.zero. In a special case, returns
// 0 if y is accepted and HUGE_VAL if y is wrong.
double error_of(const Function& f, float x, float y, double exact) {
  const float rounded = float(exact);
  if (std::isnan(rounded)) return std::isnan(y) ? 0 : HUGE_VAL;
  if (std::isinf(rounded)) return y == rounded ? 0 : HUGE_VAL;
  if (std::abs(rounded) < kSmallest) return std::abs(y - rounded) <= kSmallest ? 0 : HUGE_VAL;
  const bool cancels = f.zero != 0 && std::abs(double(x) / f.zero - 1) <= 0.01;
  const double unit = cancels ? ulp(0.2f) : ulp(rounded);
  const double error = std::abs(double(y) - exact) / unit;
  return error <= HUGE_VAL ? error : HUGE_VAL;  // NaN counts as the largest error
}

// Up to kSize floats x, the results y of a kernel, and the exact values. The bit patterns of
// neighboring x differ by `step`.
struct Floats {
  static constexpr Index kSize = 1 << 20, kGrain = 1 << 15;
  Index count = 0;
  std::vector<float> x = std::vector<float>(kSize), y = x;
  std::vector<double> exact = std::vector<double>(kSize);
  std::vector<double> ulps = exact;  // 1 / ulp, or inf if error_of() has a special case for x

  void fill(const Function& f, std::uint64_t first, std::uint64_t step) {
    constexpr std::uint64_t kAll = std::uint64_t{1} << 32;
    count = std::min<Index>(kSize, Index((kAll - first + step - 1) / step));
    parallel_for(count, kGrain, [&](Index begin, Index end) {
      for (auto k = std::size_t(begin); k < std::size_t(end); ++k) {
        x[k] = std::bit_cast<float>(std::uint32_t(first + k * step));
        exact[k] = f.exact(double(x[k]));
        const float rounded = float(exact[k]);
        const bool plain = std::abs(rounded) >= kSmallest && !std::isinf(rounded);
        ulps[k] = plain ? 1 / ulp(rounded) : HUGE_VAL;
      }
    });
  }
  double largest_error(const Function& f) {
    std::vector<double> worst(std::size_t((count + kGrain - 1) / kGrain), 0.0);
    parallel_for(count, kGrain, [&](Index begin, Index end) {
      f.kernel(&y[std::size_t(begin)], &x[std::size_t(begin)], end - begin);
      double w = 0;
      for (auto k = std::size_t(begin); k < std::size_t(end); ++k)
        if (!(std::abs(double(y[k]) - exact[k]) * ulps[k] <= w))
          w = std::max(w, error_of(f, x[k], y[k], exact[k]));
      worst[std::size_t(begin / kGrain)] = w;
    });
    return *std::max_element(worst.begin(), worst.end());
  }
};

void check_all(std::uint64_t step, bool print) {
  std::vector<std::string> targets = kernels::simd_targets();
  targets.pop_back();  // removes "scalar", which uses the C library
  Floats floats;
  for (const Function& f : kFunctions) {
    std::vector<double> largest(targets.size(), 0.0);
    for (std::uint64_t i = 0; i < std::uint64_t{1} << 32; i += step * Floats::kSize) {
      floats.fill(f, i, step);
      for (std::size_t t = 0; t < targets.size(); ++t) {
        const kernels::OnSimdTarget here(targets[t]);
        largest[t] = std::max(largest[t], floats.largest_error(f));
      }
    }
    for (std::size_t t = 0; t < targets.size(); ++t) {
      CAPTURE(f.name, targets[t], largest[t]);
      CHECK(largest[t] <= f.allowed);
      if (print)
        std::cout << f.name << " " << targets[t] << " " << largest[t] << " ulp" << std::endl;
    }
  }
}

TEST_CASE("exp, tanh and the activations keep their error bounds") { check_all(997, false); }
TEST_CASE("exp, tanh and the activations keep their error bounds over all floats", "[all_floats]") {
  check_all(1, true);
}

}  // namespace
