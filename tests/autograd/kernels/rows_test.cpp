// float32 SIMD loops against float64, on every SIMD target: every float of exp's, tanh's and erf's
// range is too many, so one in 97 of all bit patterns, each compared with the correctly rounded
// value.
#include "autograd/kernels/simd/rows.h"

#include <bit>
#include <cmath>
#include <vector>

#include "autograd/kernels/reference/softmax.h"
#include "autograd/tensor/random.h"
#include "tests/support/catch.h"
#include "tests/support/simd_targets.h"

namespace {

using namespace heed::autograd;

// The largest error in units of the last place of the exact value; NaN and inf must match.
template <class Loop, class Exact>
double worst_ulp(Loop loop, Exact exact) {
  double worst = 0;
  std::vector<float> x, y(1 << 12);
  const auto flush = [&] {
    y.resize(x.size());
    loop(y.data(), x.data(), std::int64_t(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = exact(double(x[i]));
      const float rounded = float(want);
      if (std::isnan(rounded) || std::isinf(rounded) || rounded == 0.0f) {
        const bool same = std::isnan(rounded) ? std::isnan(y[i]) : y[i] == rounded;
        // Below the smallest normal number a flush to 0 is allowed, and the reverse.
        if (!same && !(std::abs(y[i] - rounded) <= 1.2e-38f)) worst = 1e9;
        continue;
      }
      if (std::abs(rounded) < 1.2e-38f) continue;
      const double ulp =
          double(std::nextafter(std::abs(rounded), INFINITY)) - std::abs(double(rounded));
      const double error = std::abs(double(y[i]) - want) / ulp;
      if (!(error <= worst)) worst = error;
    }
    x.clear();
  };
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 97) {
    x.push_back(std::bit_cast<float>(std::uint32_t(bits)));
    if (x.size() == (1 << 12)) flush();
  }
  flush();
  return worst;
}

void check_bounds() {
  const auto call = [](auto f) {
    return [f](float* y, const float* x, std::int64_t n) { f(y, x, n); };
  };
  const double e = worst_ulp(call([](auto... a) { kernels::simd::exp(a...); }),
                             [](double v) { return std::exp(v); });
  const double t = worst_ulp(call([](auto... a) { kernels::simd::tanh(a...); }),
                             [](double v) { return std::tanh(v); });
  const double f = worst_ulp(call([](auto... a) { kernels::simd::erf(a...); }),
                             [](double v) { return std::erf(v); });
  INFO("exp " << e << ", tanh " << t << ", erf " << f << " ulp");
  CHECK(e <= 2);
  CHECK(t <= 5);
  CHECK(f <= 2);
}
TEST_CASE("exp, tanh and erf keep their error bounds over all floats") {
  testing::for_each_simd_target(check_bounds);
}

void check_rows() {
  Generator g(3);
  for (const std::int64_t n : {1, 2, 7, 15, 16, 17, 31, 33, 64, 65, 127, 384, 1000}) {
    const auto size = std::size_t(n);
    std::vector<float> x(size), w(size), b(size), go(size), y(size), want(size);
    for (auto* v : {&x, &w, &b, &go}) g.normal(std::span(*v), 0, 2);
    const auto close = [&](double tolerance) {
      for (std::size_t i = 0; i < size; ++i) CHECK(std::abs(y[i] - want[i]) <= tolerance);
    };
    kernels::simd::softmax_row(y.data(), x.data(), n);
    kernels::reference::softmax_row(want.data(), 1, x.data(), 1, n);
    close(1e-6);
    const kernels::Moments<float> m = kernels::reference::layer_norm_moments(x.data(), n, 1e-5);
    const kernels::Moments<float> fast = kernels::simd::layer_norm_moments(x.data(), n, 1e-5);
    CHECK(fast.mean == Approx(m.mean).margin(1e-5));
    CHECK(fast.rstd == Approx(m.rstd).epsilon(1e-5));
    kernels::simd::normalize(y.data(), x.data(), m, w.data(), b.data(), n);
    kernels::reference::normalize(want.data(), x.data(), m, w.data(), b.data(), n);
    close(1e-5);
    if (n > 2) {
      kernels::simd::normalize_backward(y.data(), go.data(), x.data(), m, w.data(), n, true);
      kernels::reference::normalize_backward(want.data(), go.data(), x.data(), m, w.data(), n,
                                             true);
      close(2e-5);
    }
    kernels::LogSumExp<float> lse{}, lse_want{};
    const double loss = kernels::simd::cross_entropy(lse, x.data(), n, n / 2, 0.1);
    const double loss_want = kernels::reference::cross_entropy(lse_want, x.data(), n, n / 2, 0.1);
    CHECK(loss == Approx(loss_want).epsilon(1e-6).margin(1e-6));
    kernels::simd::cross_entropy_backward(y.data(), x.data(), n, n / 2, 0.1, lse, 0.5);
    kernels::reference::cross_entropy_backward(want.data(), x.data(), n, n / 2, 0.1, lse_want, 0.5);
    close(1e-6);
    kernels::simd::gelu(y.data(), x.data(), n);
    for (std::size_t i = 0; i < size; ++i)
      want[i] = float(0.5 * double(x[i]) * (1 + std::erf(double(x[i]) / std::sqrt(2.0))));
    close(1e-6);
  }
}
TEST_CASE("rows of every length agree with the references") {
  testing::for_each_simd_target(check_rows);
}

}  // namespace
